"""Settings of the server. Each is an option of `regard serve` and an environment variable REGARD__NAME."""

from pathlib import Path

from regard.config import Field, Settings

PREFIX, OLD_PREFIX = "REGARD__", "REGARD_SERVE_"
"""Environment variables of settings: REGARD__MAX_BATCH. For a service "regard-serve", Kubernetes sets REGARD_SERVE_PORT
to an address; the name of a service does not end with a dash, so it sets no REGARD__PORT."""
KEYS_VARIABLE = "REGARD_API_KEYS"
"""API keys, with whitespace or commas between them."""
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class ServeSettings(Settings):
    """Address, limits and access."""

    host: str = Field("127.0.0.1", description="address to listen on; 0.0.0.0: all addresses")
    port: int = Field(5000, ge=0, le=65535, description="port; 0: any free port")
    languages: tuple[str, ...] = Field(
        (), description="languages for a run whose recipe names none, as RUN=SOURCE:TARGET; repeat for more runs"
    )
    max_batch: int = Field(64, ge=1, description="maximum number of sentences per batch")
    batch_tokens: int = Field(
        4096, ge=1, description="maximum number of tokens per batch; with beam search a token counts `beam` times"
    )
    batch_delay: float = Field(
        0.0,
        ge=0,
        le=1000,
        description="milliseconds that an idle model waits for further requests before it starts a batch",
    )
    threads: int = Field(
        0, ge=0, le=1024, description="threads per batch; 0: the cores divided by the number of runs, at most 8"
    )
    max_characters: int = Field(20_000, ge=1, description="maximum number of characters per request, over all texts")
    max_batch_texts: int = Field(128, ge=1, description="maximum number of texts per request")
    max_body: int = Field(10_000_000, ge=1000, description="maximum number of bytes per request body, files included")
    max_file_characters: int = Field(200_000, ge=1, description="maximum number of characters per file")
    max_alternatives: int = Field(8, ge=0, le=64, description="maximum number of alternatives per translation")
    max_queue: int = Field(
        4096, ge=1, description="maximum number of sentences waiting for a run; further requests get status 503"
    )
    max_queue_tokens: int = Field(
        262_144,
        ge=1,
        description="queue limit per run, in tokens; with beam search a token counts `beam` times; if the queue is "
        "full, the client with the most waiting tokens gets status 503 for its largest requests",
    )
    max_requests: int = Field(
        512, ge=1, description="maximum number of requests in progress; further requests get status 503"
    )
    timeout: float = Field(60.0, gt=0, description="maximum number of seconds per request")
    file_timeout: float = Field(600.0, gt=0, description="maximum number of seconds per file")
    stop_timeout: float = Field(
        60.0, gt=0, description="maximum number of seconds to finish accepted requests after SIGTERM"
    )
    requests_per_minute: int = Field(
        0, ge=0, description="maximum number of requests per minute, per API key or client address; 0: no limit"
    )
    api_keys: Path | None = Field(
        None, description=f"file with API keys, one key or sha256 sum per line; or set the variable {KEYS_VARIABLE}"
    )
    cors: tuple[str, ...] = Field(
        (), description="origin whose pages may call the server; * allows all; repeat for several"
    )
    proxy: str = Field("", description="address of a reverse proxy whose header X-Forwarded-For names the client")
    access_log: bool = Field(True, description="print one line per request, without texts")
    memory: tuple[str, ...] = Field(
        (), description="translation memory (.tmx, .tsv, .csv), used for sentences that it contains; repeat for several"
    )
    bundled_memory: bool = Field(
        True, description="look up sentences in the bundled phrases, if the bundled translator is served"
    )
    cache: int = Field(4096, ge=0, description="maximum number of translated sentences kept in memory; 0: none")

    @property
    def is_local(self) -> bool:
        """True if only this machine can reach the server."""
        return self.host in LOOPBACK
