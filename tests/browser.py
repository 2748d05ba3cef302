"""A real browser without a window, over Chromium's debugging pipe: open a page, ask it, point at things, take its picture."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

FOUND = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
WHY = "no Chromium here; `apt-get install chromium` brings one"


class Browser:
    """One page. Its network is cut off, and what it asked for is in `asked`."""

    def __init__(self, profile: Path, width: int = 1280, height: int = 900) -> None:
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        flags = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--remote-debugging-pipe",
            f"--user-data-dir={profile}",
            f"--window-size={width},{height}",
        ]
        # Chromium reads its orders from descriptor 3 and answers on 4.
        script = f'exec 3<&{theirs_in} 4>&{theirs_out}; exec "$0" "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", script, FOUND, *flags, "about:blank"],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._buffer, self._number, self._session = b"", 0, ""
        self.asked: list[str] = []
        self.said: list[str] = []
        target = next(t for t in self("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self._session = self("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self(f"{domain}.enable")

    def __call__(self, method: str, **arguments: Any) -> Any:
        """Ask, and wait for the answer."""
        self._number += 1
        order = {"id": self._number, "method": method, "params": arguments}
        os.write(self._out, json.dumps(order | ({"sessionId": self._session} if self._session else {})).encode() + b"\0")
        while (message := self._next()).get("id") != self._number:
            self._heard(message)
        if "error" in message:
            raise RuntimeError(f"{method}: {message['error']}")
        return message["result"]

    def _next(self) -> Any:
        while b"\0" not in self._buffer:
            part = os.read(self._in, 1 << 16)
            if not part:
                raise RuntimeError("the browser is gone")
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def _heard(self, message: Any) -> None:
        if message.get("method") == "Network.requestWillBeSent":
            self.asked.append(message["params"]["request"]["url"])
        if message.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
            self.said.append(json.dumps(message["params"]))

    def open(self, path: Path, *, dark: bool = False, width: int = 1280, height: int = 900) -> None:
        """Load a page and wait until it is there."""
        self("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self("Emulation.setEmulatedMedia", features=features)
        self.asked, self.said = [], []
        self("Page.navigate", url=path.as_uri())
        while self.js("document.readyState") != "complete" or self.js("location.href") == "about:blank":
            pass

    def js(self, code: str) -> Any:
        """What the code gives."""
        return self("Runtime.evaluate", expression=code, returnByValue=True)["result"].get("value")

    def point(self, selector: str, *, click: bool = False) -> None:
        """Put the pointer on the first such element."""
        place = "const r = e.getClientRects()[0]; return [r.x + 3, r.y + r.height / 2];"
        code = f"(e => {{ e.scrollIntoView({{block: 'center'}}); {place} }})"
        x, y = self.js(f"{code}(document.querySelector({json.dumps(selector)}))")
        self("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        if click:
            for kind in ("mousePressed", "mouseReleased"):
                self("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def picture(self, path: str) -> None:
        """What is seen now."""
        Path(path).write_bytes(base64.b64decode(self("Page.captureScreenshot")["data"]))

    def close(self) -> None:
        """End the browser and its children."""
        for end in (self._out, self._in):
            os.close(end)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
