"""A headless Chromium, driven through the pipe of its own protocol; nothing has to be installed for it."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

_KEYS = {"ArrowLeft": 37, "ArrowRight": 39, "Home": 36, "End": 35, "Tab": 9}


class Browser:
    """One page. `messages` holds what the page said on its console, and errors of its scripts."""

    def __init__(self, reader: int, writer: int) -> None:
        self.reader = os.fdopen(reader, "rb", buffering=0)
        self.writer = os.fdopen(writer, "wb", buffering=0)
        self.rest = b""
        self.number = 0
        self.session = ""
        self.messages: list[Any] = []
        self.loaded = 0

    def open(self) -> None:
        """Make the page."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> Any:
        """Carry out a command, and give its result. RuntimeError if it fails."""
        self.number += 1
        call: dict[str, Any] = {"id": self.number, "method": method, "params": params}
        if self.session:
            call["sessionId"] = self.session
        self.writer.write(json.dumps(call).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self._event(answer)

    def _receive(self) -> Any:
        while b"\0" not in self.rest:
            part = self.reader.read(1 << 16)
            if not part:
                raise RuntimeError("the browser has gone")
            self.rest += part
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def _event(self, event: Any) -> None:
        if event.get("method") == "Page.loadEventFired":
            self.loaded += 1
        if event.get("method") in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
            self.messages.append(event["params"])

    def visit(self, path: Path) -> None:
        """Load a file, and wait until it is there."""
        before = self.loaded
        self.send("Page.navigate", url=path.as_uri())
        while self.loaded == before:
            self._event(self._receive())

    def run(self, script: str) -> Any:
        """The value of an expression in the page. RuntimeError if it throws."""
        found = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def press(self, key: str) -> None:
        """Press a key and let it go."""
        for kind in ("rawKeyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=_KEYS[key])

    def scheme(self, name: str) -> None:
        """Prefer `light` or `dark`."""
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def size(self, width: int, height: int) -> None:
        """The size of the window."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        # What follows the size of an element is told with the next frame.
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def picture(self, path: Path) -> None:
        """Save what the window shows."""
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot")["data"]))


@contextmanager
def chromium(folder: Path) -> Generator[Browser]:
    """A browser with a profile in `folder`; it ends with the block."""
    assert PROGRAM is not None
    (in_read, in_write), (out_read, out_write) = os.pipe(), os.pipe()
    # The browser wants them as 3 and 4: out of the way first.
    child = [fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (in_read, out_write)]

    def place() -> None:
        os.dup2(child[0], 3)
        os.dup2(child[1], 4)

    command = [
        PROGRAM, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions",
        "--disable-dev-shm-usage", f"--user-data-dir={folder}", "--remote-debugging-pipe", "about:blank",
    ]  # fmt: skip
    process = subprocess.Popen(
        command, preexec_fn=place, pass_fds=(3, 4), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    for fd in (in_read, out_write, *child):
        os.close(fd)
    browser = Browser(out_read, in_write)
    try:
        browser.open()
        yield browser
    finally:
        browser.writer.close()
        browser.reader.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
