"""A headless Chromium that tests talk to: the DevTools protocol over a pair of pipes, no port and
no library."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

DEADLINE = 120  # seconds after which a browser that says nothing is taken for hanging


class Browser:
    """A browser without a page. Use it as a context manager; it ends when its pipes do."""

    def __init__(self, chromium: str, profile: Path) -> None:
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        command = [
            chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--force-color-profile=srgb",
            "--remote-debugging-pipe", f"--user-data-dir={profile}", "--no-startup-window",
        ]  # fmt: skip
        # The protocol wants descriptors 3 and 4; the shell puts them there whatever numbers the
        # pipes have.
        script = f'exec "$@" 3<&{to_read} 4>&{to_write}'
        self._home = tempfile.mkdtemp(prefix="chromium")  # a short name: there is a socket in it
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", *command],
            pass_fds=(to_read, to_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": self._home, "TMPDIR": self._home, "XDG_CONFIG_HOME": "", "XDG_CACHE_HOME": ""},
            start_new_session=True,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self._buffer = b""
        self._number = 0

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._write)
        os.close(self._read)
        with suppress(ProcessLookupError):
            # with its helpers, which write files until they end
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        shutil.rmtree(self._home, ignore_errors=True)

    def tell(self, **command: Any) -> int:
        """Send a command; its number."""
        self._number += 1
        os.write(self._write, json.dumps({"id": self._number, **command}).encode() + b"\0")
        return self._number

    def message(self) -> dict[str, Any]:
        """The next message: an answer, which has the number of its command, or an event."""
        while b"\0" not in self._buffer:
            if not select.select([self._read], [], [], DEADLINE)[0]:
                raise RuntimeError(f"the browser has said nothing for {DEADLINE} s")
            piece = os.read(self._read, 1 << 16)
            if not piece:
                raise RuntimeError("the browser has ended")
            self._buffer += piece
        raw, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(raw)
        return found


class Page:
    """One page of a browser, with settings and storage of its own. Use it as a context manager.

    Attributes:
        problems: errors of scripts, refusals of the page's policy, and requests for anything but
            the page itself.
    """

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._session: str | None = None
        self.problems: list[str] = []
        self._context = self.send("Target.createBrowserContext")["browserContextId"]
        target = self.send(
            "Target.createTarget", url="about:blank", browserContextId=self._context
        )["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *_: object) -> None:
        self._session = None
        self.send("Target.disposeBrowserContext", browserContextId=self._context)

    def _note(self, event: dict[str, Any]) -> None:
        """Keep an event that is a problem."""
        method, told = event["method"], event["params"]
        if method == "Runtime.exceptionThrown":
            details = told["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.problems.append(told["entry"]["text"])
        elif (
            method == "Network.requestWillBeSent" and told["request"]["url"] != told["documentURL"]
        ):
            self.problems.append(f"request: {told['request']['url']}")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol; its result."""
        session = {"sessionId": self._session} if self._session else {}
        number = self._browser.tell(method=method, params=params, **session)
        while True:
            message = self._browser.message()
            if message.get("id") == number:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result
            if "method" in message and message.get("sessionId") == self._session:
                self._note(message)

    def open(self, file: Path, *, width: int = 1280, height: int = 900, **media: str) -> None:
        """Show a file.

        Args:
            width, height: of the window, in pixels.
            media: `media="print"`, or features such as `prefers_color_scheme="dark"`.
        """
        features = [
            {"name": k.replace("_", "-"), "value": v} for k, v in media.items() if k != "media"
        ]
        self.send("Emulation.setEmulatedMedia", media=media.get("media", ""), features=features)
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.send("Page.navigate", url=file.resolve().as_uri())
        self.until(
            f"location.href === {json.dumps(file.resolve().as_uri())} && document.readyState === 'complete'"
        )

    def until(self, expression: str) -> None:
        """Wait for an expression to be true: events come later."""
        while not self.value(f"Boolean({expression})"):
            time.sleep(0.01)

    def value(self, expression: str) -> Any:
        """What an expression gives, as JSON."""
        found = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, *keys: str) -> None:
        """Press keys, by the names that `KeyboardEvent.key` has."""
        codes = {
            "Enter": 13,
            "Escape": 27,
            "Tab": 9,
            " ": 32,
            "ArrowDown": 40,
            "ArrowRight": 39,
            "End": 35,
            "Home": 36,
        }
        for key in keys:
            text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
            event = {"key": key, "windowsVirtualKeyCode": codes.get(key, 0), "text": text}
            self.send("Input.dispatchKeyEvent", type="keyDown", **event)
            self.send("Input.dispatchKeyEvent", type="keyUp", **event)

    def hover(self, selector: str) -> None:
        """Bring an element into view and move the pointer over it."""
        x, y = self.value(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect();"
            " return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def screenshot(self, file: Path, *, whole: bool = True) -> bytes:
        """A PNG of the page (or of the window), also written to `file`."""
        raw = base64.b64decode(
            self.send("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        )
        file.write_bytes(raw)
        return raw

    def pdf(self) -> bytes:
        """The page as it is printed."""
        return base64.b64decode(self.send("Page.printToPDF", printBackground=True)["data"])
