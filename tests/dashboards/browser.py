"""Opens a page in real Chromium: its picture, and what a script says about it."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

__all__ = ["examined", "photographed"]

_DEADLINE_SECONDS: Final = 120
_POLICY: Final = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
_FRAME: Final = """\
<!DOCTYPE html>
<html style="color-scheme: light dark">
<body style="margin: 0">
<script>
addEventListener("message", ({{ data }}) => {{
  const node = document.createElement("pre");
  node.id = "examined";
  node.textContent = JSON.stringify(data);
  document.body.append(node);
}});
</script>
<iframe src="{source}" style="border: 0; width: {width}px; height: 1200px"></iframe>
</body>
</html>
"""
_RESULT: Final = re.compile(r'<pre id="examined">(.*?)</pre>', re.DOTALL)

_EXAMINE: Final = Path(__file__).with_name("examine.js").read_text(encoding="utf-8")


def examined(page: str, folder: Path, *, width: int, dark: bool = False) -> dict[str, Any]:
    """What the script found in the page as Chromium drew it, in a frame: windows cannot be as narrow as phones."""
    drawn, frame = folder / f"examined-{width}.html", folder / f"frame-{width}.html"
    drawn.write_text(_POLICY.sub("", page).replace("</body>", f"<script>{_EXAMINE}</script></body>"), encoding="utf-8")
    frame.write_text(_FRAME.format(width=width, source=drawn.name), encoding="utf-8")
    result = _RESULT.search(_run(frame, "--dump-dom", width=max(width, 600), height=1200, dark=dark))
    assert result is not None, "the script of the test did not run"
    found: dict[str, Any] = json.loads(html.unescape(result[1]))
    return found


def photographed(page: str, folder: Path, *, width: int, height: int, dark: bool = False) -> bytes:
    """The picture of the top of the page, policy and all, as a PNG."""
    file, picture = folder / f"page-{width}.html", folder / f"page-{width}-{'dark' if dark else 'light'}.png"
    file.write_text(page, encoding="utf-8")
    _run(file, f"--screenshot={picture}", width=width, height=height, dark=dark)
    return picture.read_bytes()


def _run(file: Path, action: str, *, width: int, height: int, dark: bool) -> str:
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is missing; apt-get install chromium")
    command = [
        chromium,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--force-device-scale-factor=1",
        f"--user-data-dir={file.parent / 'chromium'}",
        f"--window-size={width},{height}",
        f"--blink-settings=preferredColorScheme={0 if dark else 1}",
        "--virtual-time-budget=10000",
        action,
        file.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_DEADLINE_SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
