"""browser.py: a headless Chromium, controlled through its DevTools protocol over two pipes. It
needs only Python's standard library.

    with Browser(path) as browser:
        page = browser.open("file:///tmp/page.html", width=1280, height=800)
        page.evaluate("document.title")
"""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def find_browser():
    """The path of a Chromium, or None. $CAIRN_BROWSER names one."""
    given = os.environ.get("CAIRN_BROWSER")
    if given:
        return shutil.which(given)
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    def __init__(self, path, patience=60):
        self.patience = patience
        self.profile = tempfile.mkdtemp(prefix="cairn-browser-")
        to_child, self.writing = os.pipe()
        self.reading, from_child = os.pipe()

        def place_pipes():  # the protocol uses file descriptors 3 and 4
            kept = os.dup(to_child), os.dup(from_child)
            os.dup2(kept[0], 3)
            os.dup2(kept[1], 4)
            for pipe in (3, 4):
                os.set_inheritable(pipe, True)

        self.process = subprocess.Popen(
            [path, "--headless=new", "--remote-debugging-pipe", "--no-sandbox",
             "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
             "--force-color-profile=srgb", "--user-data-dir=" + self.profile, "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            close_fds=False, preexec_fn=place_pipes, start_new_session=True)
        os.close(to_child)
        os.close(from_child)
        self.count = 0
        self.buffer = b""
        self.events = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.call("Browser.close", patience=5)
        except (OSError, RuntimeError, TimeoutError):
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for pipe in (self.reading, self.writing):
            os.close(pipe)
        shutil.rmtree(self.profile, ignore_errors=True)

    def receive(self, patience):
        """The next message, an answer or an event."""
        end = time.monotonic() + patience
        while b"\0" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.reading], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            chunk = os.read(self.reading, 1 << 20)
            if not chunk:
                raise RuntimeError("the browser has gone, with status %s" % self.process.poll())
            self.buffer += chunk
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, patience=None, **parameters):
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        left = json.dumps(message).encode() + b"\0"
        while left:
            left = left[os.write(self.writing, left):]
        while True:
            answer = self.receive(patience or self.patience)
            if answer.get("id") == self.count:
                if "error" in answer:
                    raise RuntimeError("%s: %s" % (method, answer["error"]["message"]))
                return answer["result"]
            self.events.append(answer)

    def open(self, address, **size):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Page(self, session, address, **size)


class Page:
    def __init__(self, browser, session, address, width=1280, height=800, scale=1, dark=False,
                 mobile=False):
        self.browser = browser
        self.session = session
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=scale, mobile=mobile)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=address)
        self.wait_until("document.readyState === 'complete'")

    def call(self, method, **parameters):
        return self.browser.call(method, session=self.session, **parameters)

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def wait_until(self, expression, patience=60):
        end = time.monotonic() + patience
        while not self.evaluate(expression):
            if time.monotonic() > end:
                raise TimeoutError(expression)
            time.sleep(0.05)

    def settle(self):
        """Wait until everything is drawn."""
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y):
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", clickCount=1, buttons=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)
        self.settle()

    def key(self, key):
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key,
                  **({"text": key} if len(key) == 1 else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.settle()

    def screenshot(self, path=None, full=False):
        """The bytes of a PNG; also written to `path`."""
        more = {"captureBeyondViewport": True} if full else {}
        if full:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            more["clip"] = {"x": 0, "y": 0, "width": size["width"], "height": size["height"],
                            "scale": 1}
        image = base64.b64decode(self.call("Page.captureScreenshot", format="png", **more)["data"])
        if path:
            with open(path, "wb") as file:
                file.write(image)
        return image

    def complaints(self):
        """Errors and warnings of the browser so far, and every address it requested."""
        self.evaluate("0")  # all earlier events have arrived then
        found = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            what = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                details = what["exceptionDetails"]
                found.append(details.get("exception", {}).get("description", details["text"]))
            elif event["method"] == "Log.entryAdded" and what["entry"]["level"] != "verbose":
                found.append(what["entry"]["text"])
            elif event["method"] == "Runtime.consoleAPICalled":
                found.append(json.dumps(what["args"]))
            elif event["method"] == "Network.requestWillBeSent":
                if not what["request"]["url"].startswith(("file:", "data:")):
                    found.append("asked for " + what["request"]["url"])
        return found
