"""A Django project for the tests: one model, a few views. Its database is set by the fixture ``database``."""

from __future__ import annotations

import sys
from typing import Any, Callable, Dict, List

import django
from django.conf import settings

settings.configure(
    DATABASES={"default": {"ENGINE": "manyhands.django", "NAME": "unset", "ATOMIC_REQUESTS": True}},
    DATA_UPLOAD_MAX_MEMORY_SIZE=10_000,
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    INSTALLED_APPS=["django.contrib.sessions"],
    MIDDLEWARE=[
        "manyhands.django.RetryMiddleware",
        "django.contrib.sessions.middleware.SessionMiddleware",
    ],
    ROOT_URLCONF="django_project",
    SECRET_KEY="for tests",
    USE_TZ=False,
)
# The URLs are in this module, under whichever name it was imported.
sys.modules["django_project"] = sys.modules[__name__]
django.setup()

from django.db import connection, models, transaction  # noqa: E402
from django.http import HttpRequest, JsonResponse  # noqa: E402
from django.urls import path  # noqa: E402

from manyhands.django import read_only, retry_atomic  # noqa: E402


class Counter(models.Model):
    value = models.IntegerField(default=0)

    class Meta:
        app_label = "project"


class Part(models.Model):
    counter = models.ForeignKey(Counter, on_delete=models.CASCADE)
    name = models.CharField(max_length=20)
    price = models.DecimalField(max_digits=8, decimal_places=2, default=1)
    made = models.DateTimeField(null=True)

    class Meta:
        app_label = "project"


runs: List[Dict[str, Any]] = []
"""What each run of a view has seen."""

meanwhile: List[Callable[[], None]] = []
"""What others do while a view runs, each once."""


def count(request: HttpRequest) -> JsonResponse:
    """Adds one to the counter, by reading and writing, and to the session."""
    fresh = not hasattr(request, "noted")
    request.noted = True
    request.session["visits"] = request.session.get("visits", 0) + 1
    counter = Counter.objects.get(pk=1)
    if meanwhile:
        meanwhile.pop()()
    counter.value += 1
    counter.save()
    runs.append(
        {
            "mode": connection.unit.mode,
            "fresh": fresh,
            "body": len(request.body) if "file" not in request.FILES else None,
            "posted": request.POST.get("posted"),
            "visits": request.session["visits"],
        }
    )
    transaction.on_commit(lambda: runs[-1].update(committed=True))
    return JsonResponse({"value": counter.value, "visits": request.session["visits"]})


def catches(request: HttpRequest) -> JsonResponse:
    """Swallows every error."""
    try:
        return count(request)
    except Exception:
        return JsonResponse({}, status=418)


def fails(request: HttpRequest) -> JsonResponse:
    raise ValueError("a view's own mistake")


@transaction.non_atomic_requests
def alone(request: HttpRequest) -> JsonResponse:
    return count(request)


urlpatterns = [
    path("count", count),
    path("catches", catches),
    path("fails", fails),
    path("alone", alone),
    path("decorated", retry_atomic(count)),
    path("read", read_only()(lambda request: JsonResponse({"value": Counter.objects.get(pk=1).value}))),
    path("write-in-read", read_only()(count)),
]
