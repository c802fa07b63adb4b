"""A Django project in one file: a visit reads and writes a session, and a counter that all visitors share.

    DATABASE=app.db gunicorn --workers 4 --threads 2 django_app

The environment says how it runs: ``ENGINE`` (``manyhands.django`` or Django's own), ``TRANSACTION_MODE``, and
``RETRY=1`` for :class:`manyhands.django.RetryMiddleware`.
"""

import os

import django
from django.conf import settings

options = {}
if os.environ.get("TRANSACTION_MODE"):
    options["transaction_mode"] = os.environ["TRANSACTION_MODE"]
settings.configure(
    ALLOWED_HOSTS=["127.0.0.1"],
    DATABASES={
        "default": {
            "ENGINE": os.environ.get("ENGINE", "manyhands.django"),
            "NAME": os.environ["DATABASE"],
            "ATOMIC_REQUESTS": True,
            "CONN_MAX_AGE": 60,
            "OPTIONS": options,
        }
    },
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.sessions"],
    MIDDLEWARE=[
        *(["manyhands.django.RetryMiddleware"] if os.environ.get("RETRY") else []),
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.common.CommonMiddleware",
    ],
    ROOT_URLCONF=__name__,
    SECRET_KEY="for an example",
    LOGGING_CONFIG=None,
)
django.setup()

from django.core.management import call_command  # noqa: E402
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.db import connection, models  # noqa: E402
from django.http import JsonResponse  # noqa: E402
from django.urls import path  # noqa: E402
from django.views.decorators.csrf import csrf_exempt  # noqa: E402

from manyhands.django import read_only  # noqa: E402


class Counter(models.Model):
    """How many visits there were."""

    value = models.IntegerField(default=0)

    class Meta:
        app_label = "visits"


class Visit(models.Model):
    """One visit."""

    visitor = models.CharField(max_length=40)
    place = models.IntegerField()

    class Meta:
        app_label = "visits"


@csrf_exempt
def visit(request):
    """Counts a visit: reads the counter, and writes what it has read plus one."""
    request.session["visits"] = request.session.get("visits", 0) + 1
    counter = Counter.objects.get(pk=1)
    counter.value += 1
    counter.save()
    Visit.objects.create(visitor=request.POST.get("visitor", "somebody"), place=counter.value)
    return JsonResponse({"place": counter.value, "visits": request.session["visits"]})


@read_only() if settings.DATABASES["default"]["ENGINE"] == "manyhands.django" else lambda view: view
def report(request):
    """Shows the counter and the visits; both are of one moment."""
    return JsonResponse({"counter": Counter.objects.get(pk=1).value, "visits": Visit.objects.count()})


urlpatterns = [path("visit", visit), path("report", report)]


def prepare():
    """Makes the tables."""
    call_command("migrate", verbosity=0)
    if "visits_counter" not in connection.introspection.table_names():
        with connection.schema_editor() as editor:
            editor.create_model(Counter)
            editor.create_model(Visit)
        Counter.objects.create(pk=1)


# With gunicorn --preload this runs in the parent of all workers, which inherit its connection and open their own.
prepare()
application = get_wsgi_application()
