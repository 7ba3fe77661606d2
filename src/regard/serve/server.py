"""The process of `regard serve`: it listens, loads the models, and answers all accepted requests before it ends.

After SIGTERM or Ctrl+C:  no new connections -> responses say "Connection: close" -> idle connections are closed
                          -> accepted requests are finished -> workers end -> status 0
"""

import asyncio
import logging
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import uvicorn

from regard.errors import UserError
from regard.serve.app import create_app
from regard.serve.service import Service
from regard.serve.settings import ServeSettings

LOG = logging.getLogger("regard.serve")
SIGNALS = (signal.SIGTERM, signal.SIGINT)
DRAIN_SECONDS = 1.0
"""How long connections that are in use may get a response with "Connection: close" before idle ones are closed."""
BACKLOG = 2048


class GracefulServer(uvicorn.Server):
    """A uvicorn server that ends with status 0 after a signal, and lets busy clients close their connections."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self.service = service

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on a signal, and do not raise it again at the end."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the listening sockets, wait for busy connections, then do what uvicorn does."""
        self.service.stopping = True
        for server in self.servers:
            server.close()
        end = time.monotonic() + DRAIN_SECONDS
        while self.server_state.connections and time.monotonic() < end and not self.force_exit:
            await asyncio.sleep(0.02)
        await super().shutdown(sockets)


def run_server(service: Service, settings: ServeSettings, report: Callable[[str], None]) -> None:
    """Serve until a signal arrives; `report` is called with the address, and when the models are loaded."""
    app = create_app(service, settings)
    listening = bind(settings.host, settings.port)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    LOG.handlers[:] = [handler]
    LOG.setLevel(logging.INFO if settings.access_log else logging.WARNING)
    LOG.propagate = False
    config = uvicorn.Config(
        app,
        backlog=BACKLOG,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.proxy),
        forwarded_allow_ips=settings.proxy or None,
        timeout_graceful_shutdown=max(1, round(settings.stop_timeout)),
    )
    server = GracefulServer(config, service)
    host, port = listening.getsockname()[:2]
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    report(f"listening on {address}; loading {len(service.runs)} run{'s' * (len(service.runs) != 1)}")
    asyncio.run(serve_until_stopped(server, listening, service, report))
    report(f"stopped; {app.state.metrics.answered} requests answered")


async def serve_until_stopped(
    server: GracefulServer, listening: socket.socket, service: Service, report: Callable[[str], None]
) -> None:
    """Run the server; if a model cannot be loaded, stop it and raise the error."""

    async def wait_for_models() -> None:
        try:
            await service.loaded()
            report("ready")
        except BaseException:
            server.should_exit = True
            raise

    loading = asyncio.ensure_future(wait_for_models())
    await server.serve(sockets=[listening])
    if not loading.done():
        loading.cancel()
    await asyncio.gather(loading, return_exceptions=True)
    if not loading.cancelled() and (error := loading.exception()) is not None:
        raise error


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens at an address; a UserError if that is not possible."""
    with ExitStack() as stack:
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            listening = stack.enter_context(socket.socket(family, kind, protocol))
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(BACKLOG)
        except OSError as error:
            problem = f"cannot listen on {host} port {port}: {error.strerror or error}"
            raise UserError(problem, "choose a different `--port`", code="port-in-use", where="port") from error
        stack.pop_all()
    return listening
