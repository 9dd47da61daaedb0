"""Real Chromium, driven over a pipe by its own protocol: pages at any width, what a script says of them, pictures, and
what the console complained of."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

__all__ = ["Browser", "browsing"]

_SECONDS: Final = 60
_ERRORS: Final = ("error", "warning")


class Browser:
    """One page of one browser."""

    def __init__(self, send: int, receive: int) -> None:
        self._send, self._receive = send, os.fdopen(receive, "rb")
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command of the protocol, and its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._send, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return dict(answer["result"])
            self.events.append(answer)

    def _read(self) -> dict[str, Any]:
        body = bytearray()
        while (one := self._receive.read(1)) != b"\0":
            assert one, "the browser ended"
            body += one
        return dict(json.loads(bytes(body)))

    def open(self, url: str, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Go there, and wait until it is drawn."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.events.clear()
        self.call("Page.navigate", url=url)
        while not any(one.get("method") == "Page.loadEventFired" for one in self.events):
            self.events.append(self._read())

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait(self, script: str) -> None:
        """Until an expression is true in the page that is drawn."""
        deadline = time.monotonic() + _SECONDS
        while not self.run(f"document.readyState === 'complete' && ({script})"):
            assert time.monotonic() < deadline, script
            time.sleep(0.02)

    def point(self, selector: str) -> None:
        """Move the pointer onto an element."""
        script = "(e => (e.scrollIntoView({block: 'center', behavior: 'instant'}), e.getClientRects()[0].toJSON()))"
        box = self.run(f"{script}(document.querySelector({json.dumps(selector)}))")
        x, y = box["x"] + min(20, box["width"] / 2), box["y"] + box["height"] / 2
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def press(self, key: str) -> None:
        """Press and let go of a key that writes a character."""
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=key)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def picture(self, file: Path, *, whole: bool = True) -> None:
        """What is drawn, as a PNG."""
        found = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(found["data"]))

    @property
    def complaints(self) -> list[str]:
        """Errors and warnings of the console since the page was opened."""
        self.run("1")
        said = [
            one["params"]["entry"]["text"]
            for one in self.events
            if one.get("method") == "Log.entryAdded" and one["params"]["entry"]["level"] in _ERRORS
        ]
        return said + [str(one["params"]) for one in self.events if one.get("method") == "Runtime.exceptionThrown"]


@contextmanager
def browsing(folder: Path) -> Iterator[Browser]:
    """A browser with a profile of its own in the folder."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is missing; apt-get install chromium")
    ours_in, theirs_out = os.pipe()
    theirs_in, ours_out = os.pipe()
    command = (
        f'exec "$0" --headless --no-sandbox --disable-gpu --hide-scrollbars --remote-debugging-pipe '
        f'--user-data-dir="$1" 3<&{theirs_in} 4>&{theirs_out}'
    )
    process = subprocess.Popen(
        ["bash", "-c", command, chromium, str(folder / "chromium")],
        pass_fds=(theirs_in, theirs_out),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        yield Browser(ours_out, ours_in)
    finally:
        process.terminate()
        process.wait(_SECONDS)
        os.close(ours_out)
