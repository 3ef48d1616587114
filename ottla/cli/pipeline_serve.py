"""`ottla pipeline serve`: pipelines under Kafka Connect's REST API.

Promises: the address is told when it is listened on. When the server ends, the pipelines go on, and the next one finds
them.
"""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import click

from ottla.cli.tool import Refused

LOOPBACK = ("127.0.0.1", "::1", "localhost")


@click.argument("files", nargs=-1, type=click.Path())
@click.option("--listen", default="127.0.0.1:8083", show_default=True, metavar="HOST:PORT", help="Where to listen.")
@click.option("--master", metavar="ADDRESS", help="The Spark that pipelines run on, as of `ottla pipeline run`.")
def serve(files: tuple[str, ...], listen: str, master: str | None) -> None:
    """Run pipelines, of FILES and of those that come by REST, and answer as Kafka Connect does.

    \b
    ottla pipeline serve orders.yaml
    curl localhost:8083/connectors/orders/status
    """
    try:
        import uvicorn

        from ottla.pipelines.connect import rest
    except ImportError as missing:
        raise Refused(
            f"a server of pipelines needs starlette and uvicorn ({missing}): pip install 'ottla[serve]'"
        ) from None
    from ottla.pipelines.connect.supervisor import Supervisor

    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdigit():
        raise Refused(f"--listen takes HOST:PORT such as 127.0.0.1:8083, and not {listen}")
    host = host.strip("[]")
    supervisor = Supervisor(arguments=["--master", master] if master else [])
    with supervisor.running():
        for file in files:
            supervisor.add_file(Path(file))
        try:
            listening = socket.create_server(
                (host, int(port)), family=socket.AF_INET6 if ":" in host else socket.AF_INET
            )
        except OSError as error:
            raise Refused(f"{listen} cannot be listened on: {error.strerror}") from None
        address = f"{host}:{listening.getsockname()[1]}"
        click.echo(f"Pipelines are served at http://{address}: {', '.join(supervisor.names()) or 'none yet'}")
        if host not in LOOPBACK:
            click.echo("Whoever reaches this address may run programs here as this user.", err=True)
        config = uvicorn.Config(rest.app(supervisor, address), log_level="warning", access_log=False, lifespan="off")
        server = uvicorn.Server(config)

        def end(number: int, frame: object) -> None:
            server.should_exit = True

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(
                number, end
            )  # uvicorn raises the signal again when it has ended, for whoever was there before
        server.run(sockets=[listening])
    click.echo("The server has ended; its pipelines go on.")
