"""`ragtrace serve`: takes spans over OTLP, from anybody's tracing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragtrace.cli.terminal import StoreOption

__all__ = ["serve"]


def serve(
    host: Annotated[str, typer.Option("--host", help="The address to serve on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=1, max=65_535, help="The port of OTLP over HTTP.")] = 4318,
    grpc_port: Annotated[int, typer.Option("--grpc-port", min=0, max=65_535, help="OTLP over gRPC; 0: not.")] = 4317,
    tokens: Annotated[
        Path | None, typer.Option("--tokens", metavar="FILE", help="Lines of a tenant and its token.  [default: none]")
    ] = None,
    metrics_tokens: Annotated[
        Path | None,
        typer.Option("--metrics-tokens", metavar="FILE", help="Lines of a name and its token, for /metrics."),
    ] = None,
    certificate: Annotated[Path | None, typer.Option("--tls-certificate", metavar="FILE", help="PEM.")] = None,
    key: Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="PEM.")] = None,
    grace: Annotated[float, typer.Option("--grace", help="Seconds from a trace's root to its assembly.")] = 5.0,
    ttl: Annotated[float, typer.Option("--ttl", help="Seconds until a trace without a root is assembled.")] = 60.0,
    keep: Annotated[float, typer.Option("--keep", help="Seconds for which late spans are united.")] = 3600.0,
    assemblers: Annotated[
        int,
        typer.Option("--assemblers", min=0, max=64, help="Further processes that make requests of traces; 0: none."),
    ] = 2,
    store: StoreOption = None,
) -> None:
    """Take spans and evaluations over OTLP, and make requests of them for `ragtrace analyze`.

    A request is answered when its spans are committed. Stop it with Ctrl-C or SIGTERM.
    """
    from ragtrace import config
    from ragtrace.cli.stores import shown
    from ragtrace.receive.server.serving import Settings, address, run

    settings = Settings(
        host=host,
        port=port,
        grpc_port=grpc_port or None,
        tokens=tokens,
        metrics_tokens=metrics_tokens,
        certificate=certificate,
        key=key,
        grace=grace,
        ttl=ttl,
        keep=keep,
        assemblers=assemblers,
    )
    loaded = config.load(store=store)
    scheme = "http" if certificate is None else "https"
    also = f" and on {address(host, grpc_port)} over gRPC" if grpc_port else ""
    told = f"taking spans on {scheme}://{address(host, port)}/v1/traces{also}, into {shown(loaded.store)}"
    run(loaded.store, loaded, settings, lambda: typer.echo(told, err=True))
