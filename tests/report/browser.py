"""A real browser, driven by the few commands of the WebDriver protocol that the tests need."""

import base64
import json
import shutil
import subprocess
import urllib.request
from contextlib import contextmanager

DRIVER, CHROMIUM = shutil.which("chromedriver"), shutil.which("chromium")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


class Browser:
    def __init__(self, address, flags):
        self.address = address
        options = {"binary": CHROMIUM, "args": list(flags)}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        found = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.session = f"/session/{found['sessionId']}"

    def _ask(self, verb, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.address}{path}", data, {"Content-Type": "application/json"}, method=verb
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def open(self, path, width=1200, height=900):
        self._ask("POST", f"{self.session}/window/rect", {"width": width, "height": height})
        self._ask("POST", f"{self.session}/url", {"url": path.as_uri()})

    def run(self, script, *arguments):
        """What a script in the page gives back."""
        return self._ask("POST", f"{self.session}/execute/sync", {"script": script, "args": list(arguments)})

    def command(self, name, **parameters):
        """One of the browser's own (DevTools)."""
        return self._ask("POST", f"{self.session}/goog/cdp/execute", {"cmd": name, "params": parameters})

    def point(self, x, y):
        """Moves the pointer."""
        move = {"type": "pointerMove", "x": round(x), "y": round(y), "duration": 0}
        actions = [{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": [move]}]
        self._ask("POST", f"{self.session}/actions", {"actions": actions})

    def errors(self):
        """What the console complains of."""
        lines = self._ask("POST", f"{self.session}/se/log", {"type": "browser"})
        return [line["message"] for line in lines if line["level"] in ("SEVERE", "WARNING")]

    def picture(self, path):
        """The whole page as a PNG file."""
        size = self.command("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 12000), "scale": 1}
        found = self.command("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(found["data"]))


@contextmanager
def browser(folder, *flags):
    """A browser with an empty profile in `folder`, ended with the block."""
    process = subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        port = None
        for line in process.stdout:
            if "was started successfully on port" in line:
                port = line.split("port")[-1].strip(" .\n")
                break
        made = Browser(f"http://127.0.0.1:{port}", (*FLAGS, f"--user-data-dir={folder}", *flags))
        try:
            yield made
        finally:
            made._ask("DELETE", made.session)
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()
