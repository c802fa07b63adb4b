"""Requests that run beside each other, and once more after a conflict."""

from __future__ import annotations

import io
import logging
from typing import Any, Callable, Optional

from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.db import connections
from django.http import HttpRequest, HttpResponse

from .base import DatabaseWrapper, UnitOfWork

logger = logging.getLogger("manyhands.django")


class RetryMiddleware:
    """Makes the transactions of ``ATOMIC_REQUESTS`` optimistic, and answers a conflicting request anyway.

    Put it first in ``MIDDLEWARE``. A view then waits for nobody while it runs, and views that only read
    never queue. If others have changed what a view read before it could commit, its transaction is rolled
    back, its answer is dropped, and the request runs a second time, through all middleware below this
    one, with the request as it came in; the second transaction holds the turn to write from its start and
    cannot conflict.

    So a view may run twice: what it does outside of the database belongs into ``transaction.on_commit``.
    A request whose body is over ``DATA_UPLOAD_MAX_MEMORY_SIZE``, or of unknown length, is not kept: it
    runs once, in its turn. Views with ``non_atomic_requests`` run as without the middleware, and so do all
    in a project that has ``ATOMIC_REQUESTS`` for several databases, of which each commits for itself.
    """

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response
        self.alias = _alias_of_atomic_requests()

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not _is_small(request):
            return self._attempt(request, UnitOfWork("immediate"))
        # Read now, so that what reads it later, in either run, reads a copy in memory.
        body = request.body
        again = _copy(request, body)
        unit = UnitOfWork("optimistic")
        response = self._attempt(request, unit)
        if unit.conflict is None:
            return response
        logger.info("%s %s runs again: %s", request.method, request.path, unit.conflict)
        request.close()
        return self._attempt(again, UnitOfWork("immediate"))

    def _attempt(self, request: HttpRequest, unit: UnitOfWork) -> HttpResponse:
        request._manyhands_unit = unit
        try:
            return self.get_response(request)
        finally:
            # Still there when no transaction began, for example because a middleware answered.
            connections[self.alias].next_unit = None

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> None:
        """Django's hook before a view: the view's transaction is to be the request's unit of work."""
        if self.alias not in getattr(view, "_non_atomic_requests", ()):
            connections[self.alias].next_unit = request._manyhands_unit

    def process_exception(self, request: HttpRequest, error: Exception) -> Optional[HttpResponse]:
        """Django's hook after an exception in a view: a conflict is not to be reported as one."""
        if request._manyhands_unit.conflict is None:
            return None
        return HttpResponse("Others have changed what this request had read.", status=503)


def _alias_of_atomic_requests() -> str:
    aliases = [alias for alias, options in connections.settings.items() if options["ATOMIC_REQUESTS"]]
    if len(aliases) != 1 or not isinstance(connections[aliases[0]], DatabaseWrapper):
        raise MiddlewareNotUsed(
            "RetryMiddleware works with ATOMIC_REQUESTS for one database, whose ENGINE is 'manyhands.django'."
        )
    return aliases[0]


def _is_small(request: HttpRequest) -> bool:
    limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    if limit is None or "HTTP_TRANSFER_ENCODING" in request.META:
        return False
    try:
        return int(request.META.get("CONTENT_LENGTH") or 0) <= limit
    except ValueError:
        return True


def _copy(request: HttpRequest, body: bytes) -> HttpRequest:
    """The request as it is before any other middleware or view has seen it."""
    again = request.__class__.__new__(request.__class__)
    again.__dict__.update(request.__dict__)
    again.META = dict(request.META)
    if "environ" in again.__dict__:
        again.environ = again.META
    again._stream = io.BytesIO(body)
    return again
