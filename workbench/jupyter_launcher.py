"""The app in JupyterLab's launcher, by jupyter-server-proxy's own mechanism: an entry point that says how to start it.

Jupyter starts ``inkling app`` when the entry is opened and shows it under its own address, behind its own login. The app keeps its
login all the same: Jupyter's server adds the token to every request, made anew at every start of Jupyter and known to no browser.
Imports no Jupyter: what it returns is data.
"""

from __future__ import annotations

import secrets
import sys
from pathlib import Path
from typing import Any

TOKEN_ENV = "INKLING_APP_TOKEN"
START_TIMEOUT_S = 600
"""The first opening may start an engine, on a busy machine."""


def setup() -> dict[str, Any]:
    """What jupyter-server-proxy needs to know; the app is at ``<base_url>inkling-app/``."""
    token, script = secrets.token_hex(24), str(Path(sys.executable).with_name("inkling"))
    return {
        "command": [script, "app", "--port", "{port}", "--root-path", "{base_url}inkling-app"],
        "environment": {TOKEN_ENV: token},
        "request_headers_override": {"Authorization": f"Bearer {token}"},
        "timeout": START_TIMEOUT_S,
        "absolute_url": False,
        "new_browser_tab": True,
        "launcher_entry": {
            "title": "Inkling Workbench", "icon_path": str(Path(__file__).parent / "app" / "icon.svg"), "category": "Notebook",
        },
    }  # fmt: skip
