"""test_page.py CAIRN [PICTURES]: the pages of plans and sweeps, in a real browser.

Every function whose name starts with test_ is a test; it gets a Run. If PICTURES, a folder, is
given, the screenshots are kept there. Exits with 77 if there is no browser."""

import base64
import json
import os
import subprocess
import sys
import tempfile

from browser import Browser, find_browser
from png import near, Picture

HOSTILE = ["<script>window.hacked=1</script>", "</script><script>window.hacked=2</script>",
           "\"quoted\"'twice'`", "<!--<b>bold</b>", "\U0001f4be-\u00e9\u2028line", "<img/src=x/onerror=window.hacked=3>"]


class Run:
    def __init__(self, cairn, folder, browser, pictures):
        self.cairn, self.folder, self.browser, self.pictures = cairn, folder, browser, pictures
        self.failures = 0
        self.made = {}

    def check(self, good, what):
        if not good:
            self.failures += 1
            print("FAILED: " + what)

    def same(self, found, wanted, what):
        self.check(found == wanted, "%s: %r instead of %r" % (what, found, wanted))

    def command(self, *words):
        done = subprocess.run([self.cairn, *words], capture_output=True, text=True, cwd=self.folder)
        if done.returncode != 0:
            raise RuntimeError("cairn %s: %s" % (" ".join(words), done.stderr))
        return done.stdout

    def page_of(self, name, *words):
        """Write a page once. Returns what the command printed and the path of the page."""
        path = os.path.join(self.folder, name + ".html")
        if name not in self.made:
            self.made[name] = self.command(*words, "--html", path)
        return self.made[name], path

    def half(self):
        """ResNet-50 in half of the memory: the report and the page."""
        words = ("plan", "resnet50", "--batch", "16", "--activation-budget", "50%", "--json")
        printed, path = self.page_of("resnet50", *words)
        return json.loads(printed), path

    def open(self, path, address="", **size):
        page = self.browser.open("file://" + path + address, **size)
        page.wait_until("globalThis.cairn !== undefined && cairn.frames.count > 0")
        return page

    def screenshot(self, page, name):
        path = os.path.join(self.pictures, name + ".png") if self.pictures else None
        return Picture(page.screenshot(path))


def box(page, name):
    """The place of a view, after scrolling to it."""
    return page.evaluate("(() => { const e = cairn.views.%s.over; e.scrollIntoView({block: 'center'});"
                         "const b = e.getBoundingClientRect(); return [b.left, b.top, b.width, b.height];"
                         "})()" % name)


def life_place(page, tensor):
    """A point of the arena map inside the longest lifetime of a tensor, in pixels of the page."""
    left, top, _, _ = box(page, "arena")
    x, y = page.evaluate("""(() => {
        const facts = cairn.facts(), { lives } = facts.plan, view = cairn.views.arena;
        const lengths = facts.livesOf.get(%d).map(i => [lives.to[i] - lives.from[i], i]).sort((a, b) => b[0] - a[0]);
        const life = lengths[0][1];
        return [view.x((lives.from[life] + lives.to[life]) / 2),
                view.y(lives.offset[life] + lives.bytes[life] / 2)]; })()""" % tensor)
    return left + x, top + y


def test_loads(run):
    report, path = run.half()
    page = run.open(path)
    run.same(page.complaints(), [], "complaints of the browser")
    lives = page.evaluate("cairn.facts().plan.lives.count")
    run.check(lives > 200, "there are lifetimes: %d" % lives)
    run.same(page.evaluate("cairn.views.arena.seen"), lives, "rectangles of the arena map")
    run.same(page.evaluate("Math.max(...cairn.facts().total)"), report["predicted_peak_bytes"], "peak of the curve")
    run.same(page.evaluate("cairn.facts().total[cairn.facts().plan.peakStep]"),
             report["predicted_peak_bytes"], "memory at the peak's step")
    run.same(page.evaluate("cairn.facts().plan.time"), report["time_ns"], "time of the step")
    run.same(page.evaluate("cairn.facts().reruns"), report["recomputed_ops"], "recomputed ops")
    run.same(page.evaluate("cairn.facts().rerunTime"), report["recomputed_ns"], "time of recomputing")
    held = page.evaluate("""(() => { const f = cairn.facts(), l = f.plan.lives, s = f.plan.peakStep;
        return [...l.bytes].filter((_, i) => l.first[i] <= s && l.last[i] >= s).sort((a, b) => b - a); })()""")
    run.same(held, sorted((h["bytes"] for h in report["holders"]), reverse=True), "holders of the peak")
    overlaps = page.evaluate("""(() => { const l = cairn.facts().plan.lives; let n = 0;
        for (let i = 0; i < l.count; i++) for (let j = 0; j < i; j++)
            if (l.first[i] <= l.last[j] && l.first[j] <= l.last[i] && l.offset[i] < l.offset[j] + l.bytes[j]
                && l.offset[j] < l.offset[i] + l.bytes[i]) n++;
        return n; })()""")
    run.same(overlaps, 0, "rectangles that overlap")


def test_says_who_is_to_blame(run):
    report, path = run.half()
    page = run.open(path)
    text = page.evaluate("document.querySelector('header').innerText")
    run.check("less memory" in text and "stationary 292.7" in text, "the headline says how much less: " + text)
    blame = page.evaluate("document.getElementById('blame').innerText")
    run.check("layer1.0" in blame and "recomputed" in blame, "what became of the largest layers: " + blame)
    visible = page.evaluate("document.getElementById('blame').getBoundingClientRect().bottom")
    run.check(visible < 800, "the culprits are on the first screen, not down to %d" % visible)
    details = page.evaluate("document.getElementById('details').innerText")
    run.check(report["peak_op"] in details, "the op at the peak: " + details)
    run.check("smallest budget of %s" % report["algorithm"] in details, "what sets the smallest budget: " + details)


def test_charts_are_tables_too(run):
    report, path = run.half()
    page = run.open(path)
    for chart in ("memory", "arena", "lanes", "chain"):
        described = page.evaluate("document.getElementById('%s').getAttribute('aria-describedby')" % chart)
        run.same(described, chart + "-table", "what describes the chart " + chart)
        rows = page.evaluate("document.querySelectorAll('#%s-table tr').length" % chart)
        run.check(rows > 5, "rows of the table behind %s: %d" % (chart, rows))


def test_chips_can_be_read(run):
    """Chips have a contrast of at least 4.5 to 1, in both modes."""
    _, path = run.half()
    for mode in ("light", "dark"):
        page = run.open(path)
        page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": mode}])
        page.settle()
        ratio = page.evaluate("""(() => { const chip = document.querySelector('#blame .chip');
            const light = (text) => { const [r, g, b] = text.match(/[0-9.]+/g).map((v) => v / 255)
                .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
                return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
            let under = chip; while (under && getComputedStyle(under).backgroundColor.endsWith(', 0)')) under = under.parentElement;
            const [a, b] = [light(getComputedStyle(chip).color), light(getComputedStyle(under).backgroundColor)];
            return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); })()""")
        run.check(ratio >= 4.5, "contrast of a chip in %s mode: %g" % (mode, ratio))


def test_one_total(run):
    """A budget is shown as it was typed, and the smallest one that the page names is that of a refusal."""
    gpt = "gpt2:layers=2,width=64,heads=2,ffn=128"
    for name, typed, *model in (("total", "220", "resnet18", "--batch", "8"),
                                ("whole", "9", gpt, "--classes", "2000", "--seq", "64", "--batch", "8")):
        _, path = run.page_of(name, "plan", *model, "--budget", typed + "MiB")
        page = run.open(path)
        tile = page.evaluate("document.querySelector('#tiles .tile').innerText")
        run.check(typed + ".0" in tile and "stationary" in tile, "the tile of the memory: " + tile)
        details = page.evaluate("document.getElementById('floor').innerText")
        smallest = details.split(" is ")[1].split(",")[0].replace("\u00a0", "").replace(" ", "")
        run.command("plan", *model, "--budget", smallest)
        refused = subprocess.run([run.cairn, "plan", *model, "--budget", "1"], capture_output=True, text=True)
        run.check("--budget %s " % smallest in refused.stderr + " ", "%s of the page, and %s" % (smallest, refused.stderr))


def test_sweep_on_a_phone(run):
    """The whole plot is there, with text of at least 11 pixels; it is drawn again for another width."""
    _, path = run.page_of("phone", "sweep", "convnet", "--step", "25")
    page = run.open(path, width=390, height=844)
    for width in 390, 1280, 390:
        page.call("Emulation.setDeviceMetricsOverride", width=width, height=844, deviceScaleFactor=1, mobile=False)
        page.settle()
        room, drawn, size, axis = page.evaluate("""(() => { const plot = document.getElementById('plot');
            const svg = plot.querySelector('svg'), text = svg.querySelector('text');
            const scale = svg.getScreenCTM().a;
            return [plot.clientWidth, svg.getBoundingClientRect().width, scale * parseFloat(getComputedStyle(text).fontSize),
                    [...svg.querySelectorAll('text')].every((t) => t.getBoundingClientRect().left >= 0)]; })()""")
        run.check(drawn <= room + 1 and page.evaluate("document.documentElement.scrollWidth") <= width,
                  "the plot is %g wide, for %g there is room" % (drawn, room))
        run.check(size >= 11 and axis, "text of %g pixels at a width of %d, all of it is there: %s" % (size, width, axis))


def test_points_and_searches(run):
    _, path = run.half()
    page = run.open(path)
    tensor = page.evaluate("cairn.graph.tensorNames.indexOf('layer1.0.relu')")
    size = page.evaluate("cairn.graph.bytes[%d]" % tensor)
    x, y = life_place(page, tensor)
    page.mouse("mouseMoved", x, y)
    page.settle()
    tip = page.evaluate("document.getElementById('tip').innerText")
    run.check("layer1.0.relu" in tip and "49.0\u00a0MiB" in tip, "pointing shows name and size: " + tip)
    run.same(page.evaluate("cairn.state.hover.tensors"), [tensor], "what is marked in all views")
    page.click(x, y)
    details = page.evaluate("document.getElementById('details').innerText")
    for wanted in ("layer1.0.relu", "{:,} bytes".format(size), "read by", "made by", "in memory"):
        run.check(wanted in details, "the details have %s: %s" % (wanted, details))
    page.key("Escape")
    page.evaluate("(() => { const s = document.getElementById('search'); s.value = 'LAYER3.0.conv2';"
                  "s.dispatchEvent(new Event('input')); })()")
    page.settle()
    found = page.evaluate("[...cairn.state.matches].map(i => cairn.graph.tensorNames[i])")
    run.check("layer3.0.conv2" in found, "the search finds a tensor: %r" % found)
    run.check(all("layer3.0.conv2" in name for name in found), "and only what matches: %r" % found)
    page.evaluate("document.querySelector('#results button').click()")
    details = page.evaluate("document.getElementById('details').innerText")
    run.check("layer3.0.conv2" in details, "choosing a result shows it: " + details)
    run.same(page.complaints(), [], "complaints of the browser")


def test_zooms_and_remembers(run):
    _, path = run.half()
    page = run.open(path)
    left, top, width, height = box(page, "memory")
    whole = page.evaluate("[cairn.state.from, cairn.state.to]")
    middle = left + width / 2
    at = page.evaluate("cairn.views.memory.timeAt(%f)" % (width / 2))
    page.mouse("mouseWheel", middle, top + 50, deltaX=0, deltaY=-600)
    page.settle()
    closer = page.evaluate("[cairn.state.from, cairn.state.to]")
    run.check(closer[1] - closer[0] < 0.6 * (whole[1] - whole[0]), "the wheel zooms in: %r" % closer)
    now = page.evaluate("cairn.views.memory.timeAt(%f)" % (width / 2))
    run.check(abs(now - at) < 1e-6 * whole[1], "what is under the pointer stays there")
    seen = page.evaluate("cairn.views.arena.seen")
    run.check(seen < page.evaluate("cairn.facts().plan.lives.count"), "only what is shown is drawn")
    page.mouse("mousePressed", middle, top + 50, button="left", clickCount=1, buttons=1)
    page.mouse("mouseMoved", middle + 100, top + 50, button="left", buttons=1)
    page.mouse("mouseReleased", middle + 100, top + 50, button="left", clickCount=1)
    page.settle()
    moved = page.evaluate("cairn.state.from")
    run.check(moved < closer[0], "dragging moves: %r from %r" % (moved, closer[0]))
    page.key("ArrowRight")
    run.check(page.evaluate("cairn.state.from") > moved, "so do the arrow keys")
    page.key("+")
    page.evaluate("cairn.chooseTensor(cairn.graph.tensorNames.indexOf('layer2.0.relu'))")
    page.wait_until("location.hash.includes('layer2.0.relu') && location.hash.includes('time=')")
    address = page.evaluate("location.hash")
    shown = page.evaluate("[Math.round(cairn.state.from), Math.round(cairn.state.to)]")
    again = run.open(path, address)
    run.same(again.evaluate("[Math.round(cairn.state.from), Math.round(cairn.state.to)]"), shown,
             "the address restores the stretch of time")
    run.check("layer2.0.relu" in again.evaluate("document.getElementById('details').innerText"),
              "and what was chosen")
    again.key("0")
    run.same(again.evaluate("[cairn.state.from, cairn.state.to]"), whole, "0 shows all")


def test_two_fingers_zoom(run):
    _, path = run.half()
    page = run.open(path, width=390, height=844, mobile=True, scale=2)
    page.call("Emulation.setTouchEmulationEnabled", enabled=True, maxTouchPoints=2)
    left, top, width, height = box(page, "memory")
    middle, y = left + width / 2, top + height / 2
    whole = page.evaluate("cairn.state.to - cairn.state.from")

    def fingers(kind, apart):
        points = [{"x": middle - apart, "y": y, "id": 0}, {"x": middle + apart, "y": y, "id": 1}]
        page.call("Input.dispatchTouchEvent", type=kind, touchPoints=points if kind != "touchEnd" else [])

    fingers("touchStart", 30)
    for apart in (45, 60, 75, 90):
        fingers("touchMove", apart)
    fingers("touchEnd", 90)
    page.settle()
    shown = page.evaluate("cairn.state.to - cairn.state.from")
    run.check(shown < 0.6 * whole, "two fingers zoom: %g of %g" % (shown, whole))
    run.same(page.evaluate("visualViewport.scale"), 1, "the page itself does not")
    run.same(page.complaints(), [], "complaints of the browser")


def test_text_can_be_selected(run):
    _, path = run.half()
    page = run.open(path)
    page.evaluate("document.querySelector('#blame details').open = true")
    x, y, width, height = page.evaluate("""(() => { const b = [...document.querySelectorAll('#blame td')]
        .find(cell => cell.innerText === 'conv1').getBoundingClientRect();
        return [b.left, b.top, b.width, b.height]; })()""")
    page.mouse("mousePressed", x + 12, y + height / 2, button="left", clickCount=2, buttons=1)
    page.mouse("mouseReleased", x + 12, y + height / 2, button="left", clickCount=2)
    run.same(page.evaluate("getSelection().toString().trim()"), "conv1", "a tensor's name, selected by a double click")


def test_draws(run):
    report, path = run.half()
    page = run.open(path, width=1280, height=800)
    for view in ("arena", "memory"):
        left, top, width, height = box(page, view)
        page.settle()
        picture = run.screenshot(page, view)
        colours = picture.counts(left + 80, top + 10, left + width - 20, top + height - 24)
        area = sum(colours.values())
        blue = sum(n for c, n in colours.items() if near(c, (0, 0x72, 0xb2)))
        orange = sum(n for c, n in colours.items() if near(c, (0xd5, 0x5e, 0)))
        blank = sum(n for c, n in colours.items() if near(c, (255, 255, 255)))
        run.check(0.1 < blue / area < 0.9, "%s: activations cover %.3f" % (view, blue / area))
        run.check(0.002 < orange / area < 0.5, "%s: gradients cover %.3f" % (view, orange / area))
        run.check(blank / area < 0.9, "%s: %.3f is blank" % (view, blank / area))
        y = top + page.evaluate("cairn.views.%s.y(%d)" % (view, report["predicted_peak_bytes"]))
        peak = max(sum(near(picture.pixel(x, round(y) + shift), (0xa3, 0, 0x4f), 60)
                       for x in range(int(left) + 80, int(left + width) - 20)) for shift in (-1, 0))
        run.check(peak > 0.3 * width, "%s: the peak's line is where the simulator says, %d pixels" % (view, peak))


def test_both_schemes_and_widths(run):
    _, path = run.half()
    backgrounds = []
    for name, size in (("light", {}), ("dark", {"dark": True}),
                       ("phone", {"width": 390, "height": 844, "mobile": True, "scale": 2})):
        page = run.open(path, **size)
        page.settle()
        picture = run.screenshot(page, name)
        backgrounds.append(picture.pixel(3, 3))
        over = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        run.check(over <= 0, "%s: nothing runs out of the side, by %d" % (name, over))
        run.same(page.complaints(), [], name + ": complaints of the browser")
    run.check(sum(backgrounds[0]) > 700 and sum(backgrounds[1]) < 150, "light and dark: %r" % backgrounds)


def test_prints(run):
    _, path = run.half()
    page = run.open(path, dark=True)
    page.wait_until("cairn.views.memory.paper.width === cairn.views.memory.base.width")
    page.settle()
    document = base64.b64decode(page.call("Page.printToPDF", printBackground=True)["data"])
    pictures = document.count(b"/Subtype /Image")
    run.check(pictures >= 4, "the views are on the printed page: %d pictures" % pictures)
    paper = page.evaluate("[...cairn.views.memory.paper.getContext('2d').getImageData(300, 150, 1, 1).data]")
    run.check(paper == [0, 0x72, 0xb2, 255], "in the colours of a light page: %r" % paper)
    page.call("Emulation.setEmulatedMedia", media="print",
              features=[{"name": "prefers-color-scheme", "value": "dark"}])
    run.same(page.evaluate("getComputedStyle(document.querySelector('.toolbar')).display"), "none", "toolbar on paper")
    run.same(page.evaluate("getComputedStyle(document.body).color"), "rgb(26, 26, 26)", "ink on paper")


def test_nothing_leaves_the_page(run):
    _, path = run.half()
    page = run.open(path)
    run.same(page.evaluate("fetch('https://example.org/').then(() => 'sent', () => 'refused')"), "refused", "fetching")
    page.evaluate("(() => { const s = document.createElement('script'); s.textContent = 'window.injected = 1';"
                  "document.body.append(s); })()")
    run.same(page.evaluate("typeof window.injected"), "undefined", "a script that was not there")


def hostile_graph(path):
    """A chain of opaque ops with names that try to get out of their strings."""
    count = len(HOSTILE)
    tensors = [{"name": "in" + HOSTILE[0], "role": "input", "bytes": 1 << 20}]
    ops = []
    for i, name in enumerate(HOSTILE):
        tensors.append({"name": "t" + name, "role": "activation", "bytes": (i + 1) << 20})
        ops.append({"name": "o" + name, "kind": "opaque", "phase": "forward", "inputs": [i], "outputs": [i + 1]})
    tensors[-1]["role"] = "loss"
    for i in reversed(range(count)):
        tensors.append({"name": "g" + HOSTILE[i], "role": "gradient", "bytes": (i + 1) << 20})
        made = len(tensors) - 1
        ops.append({"name": "b" + HOSTILE[i], "kind": "opaque", "phase": "backward", "of": i,
                    "inputs": [i, made - 1 if i + 1 < count else count], "outputs": [made]})
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"format": "cairn-graph", "version": 1, "name": "hostile" + HOSTILE[1],
                   "tensors": tensors, "ops": ops}, file, ensure_ascii=False)
    return [tensor["name"] for tensor in tensors]


def test_names_are_shown_and_never_run(run):
    names = hostile_graph(os.path.join(run.folder, "hostile.json"))
    _, path = run.page_of("hostile", "plan", "hostile.json", "--algorithm", "none")
    page = run.open(path)
    run.same(page.evaluate("cairn.graph.tensorNames"), names, "names")
    for i in range(len(names)):
        page.evaluate("cairn.chooseTensor(%d)" % i)
        page.settle()
        title = page.evaluate("document.querySelector('#details h2').textContent")
        run.same(title, names[i], "the name that is shown")
    page.evaluate("(() => { const s = document.getElementById('search'); s.value = '<';"
                  "s.dispatchEvent(new Event('input')); })()")
    page.settle()
    run.same(page.evaluate("typeof window.hacked"), "undefined", "what the names would have done")
    run.same(page.evaluate("document.querySelectorAll('script, img, b:not(.tile b)').length"), 2, "elements that names made")
    run.same(page.complaints(), [], "complaints of the browser")


def test_compares(run):
    run.command("plan", "resnet50", "--batch", "16", "--algorithm", "feng", "-o", "feng.plan")
    _, path = run.page_of("against", "plan", "resnet50", "--batch", "16", "--activation-budget", "50%",
                          "--algorithm", "precise", "--against", "feng.plan")
    page = run.open(path)
    run.same(page.evaluate("cairn.views.arena2.height > 100"), True, "the other arena map is there")
    other = page.evaluate("cairn.views.arena2.seen")
    run.check(other > 200 and other != page.evaluate("cairn.views.arena.seen"), "and is another: %d" % other)
    text = page.evaluate("document.getElementById('difference').innerText")
    for wanted in ("feng.plan", "recomputed ops", "another fate", "difference"):
        run.check(wanted in text, "the differences have %s: %s" % (wanted, text))
    page.evaluate("(() => { const s = document.getElementById('against'); s.value = '-1';"
                  "s.dispatchEvent(new Event('change')); })()")
    page.settle()
    run.same(page.evaluate("document.getElementById('difference').hidden"), True, "comparing with nothing")
    run.same(page.complaints(), [], "complaints of the browser")


def test_offloading_has_lanes(run):
    printed, path = run.page_of("offload", "plan", "vgg11", "--batch", "16", "--activation-budget", "70%",
                                "--algorithm", "offload-best", "--json")
    report = json.loads(printed)
    page = run.open(path)
    run.same(page.evaluate("cairn.facts().outs"), report["offloads"], "copies out")
    run.same(page.evaluate("cairn.facts().wait"), report["idle_ns"], "waiting")
    run.check(page.evaluate("cairn.views.lanes.height") > 80, "three lanes")
    run.check("offloads" in page.evaluate("document.getElementById('did').innerText"), "the head says so")


def test_training_is_measured(run):
    printed, path = run.page_of("train", "train", "convnet", "--batch", "4", "--steps", "2", "--backend", "ref")
    page = run.open(path)
    run.same(page.evaluate("cairn.facts().plan.measured"), True, "the times are measured")
    run.check("measured" in page.evaluate("document.getElementById('tiles').innerText"), "and the page says so")
    spent = page.evaluate("cairn.facts().plan.time")
    run.check(0 < spent < 60e9, "a step takes %d ns" % spent)
    run.same(page.evaluate("cairn.facts().plan.measured && cairn.facts().plan.time !== cairn.facts().plan.predicted"),
             True, "which is not what was predicted")
    run.same(page.complaints(), [], "complaints of the browser")


def test_sweep(run):
    printed, path = run.page_of("sweep", "sweep", "alexnet", "--batch", "16", "--step", "25", "--json")
    points = [json.loads(line) for line in printed.splitlines()]
    page = run.open(path)
    run.same(page.evaluate("document.querySelectorAll('#plot .point').length"),
             page.evaluate("new Set([...document.querySelectorAll('#plot .point')].map(p => p.dataset.entry)).size"),
             "points, each once")
    run.same(page.evaluate("cairn.data.entries.length"), len(points), "plans")
    last = page.evaluate("Number([...document.querySelectorAll('#plot .point')].at(-1).dataset.entry)")
    page.evaluate("[...document.querySelectorAll('#plot .point')].at(-1).dispatchEvent(new Event('click'))")
    page.settle()
    run.same(page.evaluate("cairn.facts().plan.peak"), points[last]["predicted_peak_bytes"], "the plan of the point")
    run.check(points[last]["algorithm"] in page.evaluate("document.getElementById('subtitle').innerText"), "and its name")
    legend = page.evaluate("document.getElementById('legend').innerText")
    for algorithm in {point["algorithm"] for point in points}:
        run.check(algorithm in legend, "the legend has %s: %s" % (algorithm, legend))
    run.same(page.complaints(), [], "complaints of the browser")


def test_large(run):
    """Ten thousand ops: the time of a frame is printed; only a wrong complexity fails."""
    _, path = run.page_of("large", "plan", "lstm", "--seq", "1450", "--batch", "2", "--algorithm", "none")
    page = run.open(path)
    ops = page.evaluate("cairn.graph.opNames.length")
    run.check(ops >= 10000, "%d ops" % ops)
    run.same(page.evaluate("cairn.views.arena.seen"), page.evaluate("cairn.facts().plan.lives.count"), "rectangles")
    times = page.evaluate("""new Promise(done => {
        const times = []; let last = performance.now(), i = 0;
        cairn.frames.count = cairn.frames.spent = 0;
        const next = () => {
            const now = performance.now(); times.push(now - last); last = now;
            if (++i > 40) return done(times.slice(1).sort((a, b) => a - b));
            cairn.zoom(i < 20 ? 0.8 : 1.25, cairn.state.whole * 0.4);
            requestAnimationFrame(next);
        };
        requestAnimationFrame(next); })""")
    middle, drawing = times[len(times) // 2], page.evaluate("cairn.frames.spent / cairn.frames.count")
    print("  %d ops: a frame while zooming is drawn in %.1f ms and shown after %.1f: %.0f a second"
          % (ops, drawing, middle, 1000 / middle))
    run.check(drawing < 100, "drawing ten thousand ops takes %.1f ms a frame" % drawing)
    page.evaluate("cairn.setRange(0, cairn.state.whole / 200)")
    page.settle()
    run.check(page.evaluate("cairn.views.arena.seen") < 3000, "zoomed in, few rectangles are visited")


def test_size(run):
    _, path = run.page_of("resnet152", "plan", "resnet152", "--batch", "16", "--algorithm", "precise",
                          "--activation-budget", "50%")
    size = os.path.getsize(path)
    print("  the page of ResNet-152 has %d kB" % (size // 1000))
    run.check(size < 2000000, "the page of ResNet-152 has %d bytes" % size)


def main():
    cairn, pictures = os.path.abspath(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None
    path = find_browser()
    if path is None:
        print("SKIPPED: the page was not tested, because there is no Chromium here; "
              "install the package chromium, or name a browser in CAIRN_BROWSER")
        return 77
    failures = 0
    with tempfile.TemporaryDirectory() as folder, Browser(path) as browser:
        run = Run(cairn, folder, browser, pictures)
        for name, test in sorted(globals().items()):
            if name.startswith("test_"):
                print(name, flush=True)
                test(run)
        failures = run.failures
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
