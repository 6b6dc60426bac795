"""Run code nobody has reviewed, in throwaway sandboxes of an Assay server.

    from assay import Sandbox, Limits

    with Sandbox.create(template="base", ttl_seconds=600) as sbx:
        sbx.filesystem.write("/home/user/main.py", "print(6 * 7)")
        result = sbx.exec("python3 main.py", timeout_seconds=10, limits=Limits(memory_bytes=256 << 20))
        print(result.stdout, result.exit_code, result.cause)

The server is ASSAY_URL, the token ASSAY_TOKEN, or Client(url, token).
"""

from .client import Client, default_client, set_default_client
from .errors import (
    AssayError,
    AuthError,
    BadRequestError,
    CommandFailed,
    ConflictError,
    ConnectionFailed,
    ForkFailed,
    KeyReusedError,
    LimitError,
    NotFoundError,
    PermissionDenied,
    ServerError,
    UnavailableError,
    UnsupportedError,
)
from .files import Filesystem
from .models import (
    ExecResult, ExecUsage, FileEvent, FileInfo, Limits, Preview, Quota, QuotaAmounts, SandboxEvent, SandboxUsage, Shape, Template,
)
from .sandbox import ExecStream, Forked, Output, Sandbox, Snapshot, Watch

__version__ = "0.1.0"

__all__ = [
    "AssayError", "AuthError", "BadRequestError", "Client", "CommandFailed", "ConflictError", "ConnectionFailed", "ExecResult", "ExecStream",
    "ExecUsage", "FileEvent", "FileInfo", "Filesystem", "ForkFailed", "Forked", "KeyReusedError", "LimitError", "Limits", "NotFoundError",
    "Output", "PermissionDenied", "Preview", "Quota", "QuotaAmounts", "Sandbox", "SandboxEvent", "SandboxUsage", "ServerError", "Shape", "Snapshot",
    "Template", "UnavailableError", "UnsupportedError", "Watch", "default_client", "set_default_client",
]
