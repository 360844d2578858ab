"""An endpoint as a route: reads the inputs, calls the function in a thread, writes the result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from stepwell.model.errors import StepwellError
from stepwell.model.secrets import redacted_texts
from stepwell.operate.requests import Answer
from stepwell.web.api.endpoint import Call, Endpoint
from stepwell.web.api.errors import problem_of
from stepwell.web.api.idempotency import Sent, once
from stepwell.web.api.inputs import read_body, read_path, read_query
from stepwell.web.problems import CONTENT_TYPE, TITLES, HttpProblem, Problem
from stepwell.web.site import Site, visitor_of

Serve: TypeAlias = Callable[[Request], Awaitable[Response]]

JSON: Final = "application/json"
_encoder: Final = msgspec.json.Encoder()


class _NoParameters(msgspec.Struct):
    pass


def routes_of(site: Site, endpoints: Sequence[Endpoint]) -> list[Route]:
    """One route for each path: it knows all methods that the path takes."""
    by_path: dict[str, dict[str, Serve]] = {}
    for endpoint in endpoints:
        by_path.setdefault(endpoint.path, {})[endpoint.method] = _serving(site, endpoint)
    return [Route(path, _by_method(serving), methods=list(serving)) for path, serving in by_path.items()]


def _by_method(serving: dict[str, Serve]) -> Serve:
    async def serve(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        return await serving[method](request)

    return serve


def _serving(site: Site, endpoint: Endpoint) -> Serve:
    types = endpoint.types

    async def serve(request: Request) -> Response:
        call = Call(site, visitor_of(request))
        if not call.visitor.may(endpoint.role):
            raise HttpProblem(403, f"{call.who} has the role {call.visitor.role}; this needs {endpoint.role}")
        body = await request.body()
        inputs: dict[str, Any] = {}
        if "path" in types:
            inputs["path"] = read_path(request, types["path"])
        query = read_query(request, types.get("query", _NoParameters))
        if "query" in types:
            inputs["query"] = query
        if "body" in types:
            inputs["body"] = read_body(request.headers.get("content-type", ""), body, types["body"])

        def work() -> Answer:
            return answer_of(endpoint.status, lambda: endpoint.handler(call, **inputs))

        if endpoint.method == "GET":
            return response_of(await site.read(work))
        key = request.headers.get("idempotency-key")
        if key is None:
            return response_of(await site.act(work))
        address = f"{request.url.path}?{request.url.query}"
        sent = Sent(call.visitor.name, key, endpoint.method, address, body)
        in_parts = endpoint.changes_nothing
        answer = await site.act(_answered, lambda: once(site.app.database, sent, work, in_parts=in_parts))
        return response_of(answer)

    return serve


def answer_of(status: int, work: Callable[[], Any]) -> Answer:
    """The result of a function as the text of an answer; an error of Stepwell as a problem."""

    def made() -> Answer:
        # Reasons, messages and errors are texts of people and programs; all of them pass here.
        shown = redacted_texts(msgspec.to_builtins(work(), str_keys=True))
        return Answer(status, _encoder.encode(shown).decode())

    return _answered(made)


def _answered(work: Callable[[], Answer]) -> Answer:
    try:
        return work()
    except StepwellError as error:
        return _of_problem(problem_of(error))
    except HttpProblem as problem:
        return _of_problem(problem)


def _of_problem(problem: HttpProblem) -> Answer:
    text = Problem(TITLES.get(problem.status, "Error"), problem.status, problem.detail, problem.help)
    return Answer(problem.status, _encoder.encode(text).decode(), headers=problem.headers)


def response_of(answer: Answer) -> Response:
    kind = JSON if answer.status < 400 else CONTENT_TYPE
    return Response(answer.text, answer.status, media_type=kind, headers=dict(answer.headers))
