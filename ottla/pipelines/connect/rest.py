"""Kafka Connect's REST API over the pipelines that are served.

Promises: paths, status codes and bodies are those of Kafka Connect 4.3, errors `{"error_code", "message"}` among them,
for what is served; what is not supported is not there. A connector is a pipeline, and has one task, the process that
runs it; its config is the pipeline's file, whose values may be maps and lists. Called by `ottla pipeline serve`.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ottla import __version__
from ottla.pipelines.connect.deployment import Target
from ottla.pipelines.connect.errors import SpecError
from ottla.pipelines.connect.spec import NAME, Pipeline
from ottla.pipelines.connect.supervisor import AlreadyThere, NoSuchPipeline, Supervisor
from ottla.pipelines.errors import PipelineError

BODY_BYTES_MAX = 1 << 20
_REASONS = {404: "Not Found", 405: "Method Not Allowed", 413: "Request Entity Too Large", 415: "Unsupported Media Type"}
JSON_TYPE = "application/json"


class RestError(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


def app(supervisor: Supervisor, worker_id: str) -> Starlette:
    """The application; `worker_id` is the address that it is served at."""
    api = _Api(supervisor, worker_id)
    one = "/connectors/{name}"
    routes = [
        ("GET", "/", api.root),
        ("GET", "/connectors", api.connectors),
        ("POST", "/connectors", api.create),
        ("GET", one, api.info),
        ("DELETE", one, api.delete),
        ("GET", f"{one}/config", api.config),
        ("PUT", f"{one}/config", api.put_config),
        ("GET", f"{one}/status", api.status),
        ("GET", f"{one}/topics", api.topics),
        ("GET", f"{one}/tasks", api.tasks),
        ("GET", f"{one}/tasks/{{task}}/status", api.task_status),
        ("POST", f"{one}/tasks/{{task}}/restart", api.task_restart),
        ("PUT", f"{one}/pause", api.target(Target.PAUSED, 202)),
        ("PUT", f"{one}/resume", api.target(Target.RUNNING, 202)),
        ("PUT", f"{one}/stop", api.target(Target.STOPPED, 204)),
        ("POST", f"{one}/restart", api.restart),
    ]
    by_path: dict[str, dict[str, Endpoint]] = {}
    for method, path, endpoint in routes:
        by_path.setdefault(path, {})[method] = endpoint
    return Starlette(
        routes=[Route(path, _handler(endpoints), methods=list(endpoints)) for path, endpoints in by_path.items()],
        exception_handlers={HTTPException: _http_error, Exception: _failure},
    )


Endpoint = Callable[["Call"], Response]


class Call:
    """A request, with its body read."""

    def __init__(self, request: Request, body: bytes) -> None:
        self.query = request.query_params
        self.name: str = request.path_params.get("name", "")
        self.task: str = request.path_params.get("task", "")
        self._body = body

    def json(self) -> Any:
        """The body. Connect answers 500 for what is not JSON or not of the form, and so is it here."""
        try:
            return json.loads(self._body)
        except ValueError as error:
            raise RestError(500, f"the body is not JSON: {error}") from None

    def flag(self, name: str) -> bool:
        return str(self.query.get(name, "false")).lower() == "true"


class _Api:
    def __init__(self, supervisor: Supervisor, worker_id: str) -> None:
        self._supervisor = supervisor
        self._worker_id = worker_id

    def root(self, call: Call) -> Response:
        # A worker of Connect stands on one cluster; pipelines name theirs.
        return JSONResponse({"version": __version__, "commit": "unknown", "kafka_cluster_id": None})

    def connectors(self, call: Call) -> Response:
        names = self._supervisor.names()
        if "expand" not in call.query:
            return JSONResponse(names)
        asked = call.query.getlist("expand")
        found = {}
        for name in names:
            try:
                expansions = {"status": self._status, "info": self._info}
                found[name] = {what: expansions[what](name) for what in asked if what in expansions}
            except NoSuchPipeline:
                continue  # removed while it was looked at
        return JSONResponse(found)

    def create(self, call: Call) -> Response:
        given = call.json()
        if not isinstance(given, Mapping) or not isinstance(given.get("config"), Mapping):
            raise RestError(500, 'the body is a map with "name" and "config", a map')
        name = str(given.get("name") or "").strip()
        wanted = given.get("initial_state")
        if wanted is not None and str(wanted).upper() not in Target.__members__:
            raise RestError(500, f"initial_state is one of {', '.join(Target.__members__)}, and not {wanted}")
        target = Target.RUNNING if wanted is None else Target(str(wanted).upper())
        self._supervisor.create(_named(name, given["config"]), target)
        return JSONResponse(self._info(name), 201, {"Location": f"/connectors/{name}"})

    def info(self, call: Call) -> Response:
        return JSONResponse(self._info(call.name))

    def config(self, call: Call) -> Response:
        return JSONResponse(self._supervisor.deployed(call.name).config())

    def put_config(self, call: Call) -> Response:
        given = call.json()
        if not isinstance(given, Mapping):
            raise RestError(500, "the body is a map, the config")
        if self._supervisor.change(call.name, _named(call.name, given)):
            return JSONResponse(self._info(call.name))
        return JSONResponse(self._info(call.name), 201, {"Location": f"/connectors/{call.name}"})

    def delete(self, call: Call) -> Response:
        self._supervisor.remove(call.name)
        return Response(status_code=204)

    def status(self, call: Call) -> Response:
        try:
            return JSONResponse(self._status(call.name))
        except NoSuchPipeline:
            raise RestError(404, f"No status found for connector {call.name}") from None

    def topics(self, call: Call) -> Response:
        # Connect answers for a name that it does not know as well.
        known = call.name in self._supervisor.names()
        return JSONResponse({call.name: {"topics": _topics(self._supervisor.pipeline(call.name)) if known else []}})

    def tasks(self, call: Call) -> Response:
        tasks = self._info(call.name)["tasks"]
        config = self._supervisor.deployed(call.name).config()
        return JSONResponse([{"id": task, "config": config} for task in tasks])

    def task_status(self, call: Call) -> Response:
        return JSONResponse(self._task(call, f"No status found for task {call.name}-{call.task}"))

    def task_restart(self, call: Call) -> Response:
        self._task(call, f"Unknown task: {call.name}-{call.task}")
        self._supervisor.restart(call.name)
        return Response(status_code=204)

    def target(self, target: Target, status: int) -> Endpoint:
        def endpoint(call: Call) -> Response:
            try:
                self._supervisor.set_target(call.name, target)
            except NoSuchPipeline:
                if target is Target.STOPPED:
                    raise
                raise RestError(404, f"Unknown connector {call.name}") from None
            return Response(status_code=status)

        return endpoint

    def restart(self, call: Call) -> Response:
        only_failed, with_tasks = call.flag("onlyFailed"), call.flag("includeTasks")
        try:
            self._supervisor.restart(call.name, only_failed=only_failed)
        except NoSuchPipeline:
            raise RestError(404, f"Unknown connector: {call.name}") from None
        if only_failed or with_tasks:
            return JSONResponse(self._status(call.name), 202)
        return Response(status_code=204)

    def _info(self, name: str) -> dict[str, Any]:
        deployed = self._supervisor.deployed(name)
        return {
            "name": name,
            "config": deployed.config(),
            "tasks": [] if deployed.target is Target.STOPPED else [{"connector": name, "task": 0}],
            "type": self._type(name),
        }

    def _status(self, name: str) -> dict[str, Any]:
        found = self._supervisor.status(name)
        # The version is that of the connector (KIP-891), and so it is Ottla's.
        state: dict[str, Any] = {"state": found.state, "worker_id": self._worker_id, "version": __version__}
        if found.trace is not None:
            state["trace"] = found.trace
        tasks = [] if found.state == "STOPPED" else [{"id": 0, **state}]
        return {"name": name, "connector": state, "tasks": tasks, "type": self._type(name)}

    def _task(self, call: Call, unknown: str) -> dict[str, Any]:
        try:
            tasks = self._status(call.name)["tasks"]
        except NoSuchPipeline:
            raise RestError(404, unknown) from None
        for task in tasks:
            if str(task["id"]) == call.task:
                found: dict[str, Any] = task
                return found
        raise RestError(404, unknown)

    def _type(self, name: str) -> str:
        """As Connect sees it: what reads topics is a sink, what only writes them a source."""
        try:
            pipeline = self._supervisor.pipeline(name)
        except SpecError:
            return "unknown"
        return "sink" if any(part.kind == "topic" for part in pipeline.sources.values()) else "source"


def _named(name: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """The config, with the name that the request has for it."""
    if not NAME.fullmatch(name):
        raise RestError(400, f"a pipeline's name is letters, digits, '.', '_' and '-', and not {name!r}")
    included = config.get("name", name)
    if included != name:
        raise RestError(
            400, f"Connector name configuration ({included}) doesn't match connector name in the URL ({name})"
        )
    return {"name": name, **config}


def _topics(pipeline: Pipeline) -> list[str]:
    """The topics that the file names."""
    found: list[str] = []
    for _, part in pipeline.placed_parts():
        if part.kind == "topic":
            named = part.options.get("topic", ())
            found += [named] if isinstance(named, str) else named
    if pipeline.dead_letter is not None:
        found.append(pipeline.dead_letter.topic)
    return list(dict.fromkeys(found))


def _handler(endpoints: Mapping[str, Endpoint]) -> Callable[[Request], Awaitable[Response]]:
    async def handle(request: Request) -> Response:
        endpoint = endpoints["GET" if request.method == "HEAD" else request.method]
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > BODY_BYTES_MAX:
                return _error(413, f"HTTP 413 {_REASONS[413]}")
        if body and request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON_TYPE:
            # A page in a browser can post a form anywhere, and JSON only where it is allowed to.
            return _error(415, f"HTTP 415 {_REASONS[415]}")
        return await run_in_threadpool(_answer, endpoint, Call(request, body))

    return handle


def _answer(endpoint: Endpoint, call: Call) -> Response:
    try:
        return endpoint(call)
    except RestError as error:
        return _error(error.status, str(error))
    except NoSuchPipeline as error:
        return _error(404, str(error))
    except AlreadyThere as error:
        return _error(409, str(error))
    except SpecError as error:
        lines = "\n".join(map(str, error.problems))
        count = len(error.problems)
        return _error(400, f"Connector configuration is invalid and contains the following {count} error(s):\n{lines}")
    except (PipelineError, OSError) as error:
        return _error(500, str(error))


def _error(status: int, message: str) -> Response:
    return JSONResponse({"error_code": status, "message": message}, status)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), "it is registered for these"
    reason = _REASONS.get(error.status_code, error.detail)
    return _error(error.status_code, f"HTTP {error.status_code} {reason}")


async def _failure(request: Request, error: Exception) -> Response:
    return _error(500, str(error) or type(error).__name__)
