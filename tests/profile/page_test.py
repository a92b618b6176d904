#!/usr/bin/python3
"""Opens the pages of a real run in headless Chromium, from file://: page_test.py STRATA

Debian's Python, since it is the one that has Debian's Selenium. Exit status 1 and one sentence per finding."""
import contextlib
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

RUN_FILE = """
model:
  architecture: llama
  config: {vocab_size: 256, hidden_size: 64, num_hidden_layers: 3, num_attention_heads: 4, num_key_value_heads: 2, intermediate_size: 128,
           max_position_embeddings: 64}
data: {path: corpus.txt, tokenizer: bytes, sequence_length: 64}
train: {steps: 100, batch: 4, microbatch: 2, precision: fp32, recompute: none}
memory: {device: 1MiB, host: 1GiB}
checkpoint: {path: saved, every: 1}
report: {metrics: metrics.jsonl}
"""
RUN_NAME = "<script>alert(1)<img src=x onerror=alert(2)>.yaml"
HOSTILE = "</script><img src=x onerror=alert(3)>"
failures = []


def check(holds, sentence):
    if not holds:
        failures.append(sentence)


def equal(found, expected, what):
    check(found == expected, f"{what}: the page has {found!r}, summary.json {expected!r}")


@contextlib.contextmanager
def chromium():
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        sys.exit("page_test.py: Selenium is missing: apt-get install python3-selenium")
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not browser or not driver:
        sys.exit("page_test.py: Chromium is missing: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1440,900"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    page = webdriver.Chrome(options=options, service=Service(driver))
    try:
        page.set_page_load_timeout(30)
        yield page
    finally:
        page.quit()


def strata(program, folder, *arguments):
    done = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        sys.exit(f"page_test.py: strata {' '.join(arguments)} failed: {done.stderr}")


class Page:
    """The page in the browser, and what a person does with it."""

    def __init__(self, driver, path):
        self.driver = driver
        driver.get_log("browser")
        driver.get(path.as_uri())
        check(self("return document.documentElement.dataset.ready") == "yes", f"{path.name} has not drawn itself")

    def __call__(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def size(self, width, height, dark=False):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia",
                                    {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})

    def figures(self, selector):
        """The figures within: by name a list of exact values."""
        found = self("return [...document.querySelectorAll(arguments[0] + ' data')].map((data) => [data.dataset.figure, data.value])", selector)
        values = {}
        for name, value in found:
            values.setdefault(name, []).append(float(value) if value else None)
        return values

    def choose(self, source):
        self("document.getElementById('source-' + arguments[0]).click()", source)
        self.settle()

    def settle(self):
        self.driver.execute_async_script("const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()));")

    def plot(self, selector):
        """Where a chart is on the screen, and what it shows."""
        self("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", selector)
        self.settle()
        plot = self("""const plot = document.querySelector(arguments[0]), box = plot.getBoundingClientRect();
                       return {...plot.dataset, x: box.left, y: box.top}""", selector)
        return {name: value if name in ("tier", "group", "lanes") else float(value) for name, value in plot.items()}

    def point(self, x, y):
        self.driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x, "y": y})
        return self("""const tip = document.getElementById('tip');
                       return tip.hidden ? null : {title: tip.querySelector('strong').textContent,
                         facts: Object.fromEntries([...tip.querySelectorAll('dt')].map((name) => [name.textContent, name.nextSibling.textContent]))}""")

    def press(self, *keys):
        from selenium.webdriver.common.action_chains import ActionChains
        for key in keys:
            ActionChains(self.driver, duration=0).send_keys(key).perform()

    def scan(self, selector, x, rows):
        """What the tip says as a pointer goes down a chart: a list of titles and their facts. The browser's own events, all in one call."""
        return self("""const [selector, x, rows] = arguments, plot = document.querySelector(selector), tip = document.getElementById('tip');
                       return rows.map((y) => { plot.dispatchEvent(new MouseEvent('mousemove', {clientX: x, clientY: y, bubbles: true}));
                         return [tip.querySelector('strong').textContent,
                           Object.fromEntries([...tip.querySelectorAll('dt')].map((name) => [name.textContent, name.nextSibling.textContent]))]; })""",
                    selector, x, rows)

    def said(self):
        return self("return document.getElementById('said').textContent")

    def complaints(self):
        return [entry["message"] for entry in self.driver.get_log("browser")]


def check_numbers(page, summary):
    """Every figure of the summary stands in the DOM, to the last digit."""
    lanes = page("return [...document.querySelectorAll('.lanes-table tbody th')].map((head) => head.textContent)")
    equal(sorted(lanes), sorted(summary["lanes"]), "lanes")
    found = page.figures(".lanes-table")
    for figure, key in (("busy", "busy_seconds"), ("waited", "waited_seconds"), ("slices", "slices")):
        equal(found[figure], [float(summary["lanes"][lane][key]) for lane in lanes], key)
    equal(page.figures("#figures")["seconds"], [summary["seconds"]], "seconds")
    equal(page.figures("#figures")["to-bound"], [summary["seconds"] / summary["bound"]["seconds"]], "distance to the bound")
    for resource in ("compute", "h2d", "d2h", "host_memory"):
        equal(page.figures(".needs-table")["needs." + resource], [summary["needs"][resource]], "needs of " + resource)
    for tier, memory in summary["memory"].items():
        article = f"#peak article[data-tier={tier}]"
        equal(page.figures(article + " .lead"), {"live-peak": [memory["live_peak_bytes"]], "live-peak-at": [memory["live_peak_at_seconds"]],
                                                "peak": [memory["peak_bytes"]]}, f"peak of {tier}")
        kinds = page.figures(article + " .kind-table")
        for kind, size in memory["by_kind"].items():
            equal(kinds.get("kind." + kind, [0.0]), [size], f"{kind} on {tier}")
        buffers = page.figures(article + " .buffer-table")
        equal(buffers["buffer.bytes"], [float(buffer["bytes"]) for buffer in memory["at_peak"]], f"buffers on {tier}")
        names = page("return [...document.querySelectorAll(arguments[0] + ' .buffer-table tbody th')].map((head) => head.textContent)", article)
        equal(names, [buffer["name"] for buffer in memory["at_peak"]], f"names on {tier}")
        drawn = page(f"return document.querySelector('.plot[data-tier={tier}]').dataset.peakBytes")
        equal(float(drawn), float(memory["live_peak_bytes"]), f"peak that the chart of {tier} draws")
    equal(page.figures(".traffic-table")["traffic"], [float(size) for size in summary["traffic"].values()], "traffic")


def check_hover(page, summary, tier):
    """Goes down the stack at the moment of the peak: each buffer is named, over as many pixels as it has bytes."""
    plot = page.plot(f".plot[data-tier={tier}]")
    memory = summary["memory"][tier]
    at_peak = {buffer["name"]: buffer for buffer in memory["at_peak"]}
    column = int((memory["live_peak_at_seconds"] - plot["first"]) / (plot["last"] - plot["first"]) * plot["width"])
    x = plot["x"] + plot["left"] + column + 0.5
    rows = [plot["y"] + plot["top"] + row + 0.5 for row in range(int(plot["height"]))]
    seen, facts, place = {}, {}, {}
    for y, (title, told) in zip(rows, page.scan(f".plot[data-tier={tier}]", x, rows)):
        seen[title] = seen.get(title, 0) + 1
        facts[title], place[title] = told, y
    largest = memory["at_peak"][0]["name"]
    tip = page.point(x, place.get(largest, rows[0]))
    equal(tip and tip["title"], largest, f"what a mouse over the largest buffer of {tier} shows")
    per_byte = plot["height"] / plot["highest"]
    for name, buffer in at_peak.items():
        pixels = buffer["bytes"] * per_byte
        check(abs(seen.get(name, 0) - pixels) <= 1.6, f"{name} has {seen.get(name, 0)} pixels on {tier}, not {pixels}")
        if name not in facts:
            continue
        equal(facts[name]["kind"], buffer["kind"].replace("_", " "), f"kind of {name}")
        if buffer["made_by"] and buffer["last_used_by"]:
            equal([facts[name]["made by"], facts[name]["freed after"]], [buffer["made_by"], buffer["last_used_by"]], f"life of {name}")
    above = [name for name in seen if name not in at_peak]
    check(len(above) == 1 and f" on {tier} at " in above[0], f"above the stack of {tier} stands {above}")
    check(sum(pixels > 0 for name, pixels in seen.items() if name in at_peak) >= 3, f"hardly a buffer was seen on {tier}")


def check_keys(page, summary):
    page.size(1440, 900)
    focused = "return document.activeElement.getAttribute('aria-label') || ''"
    page("document.body.tabIndex = -1; document.body.focus(); window.scrollTo(0, 0)")
    for _ in range(40):
        page.press("\ue004")
        if page(focused).startswith("Memory of device"):
            break
    check(page(focused).startswith("Memory of device"), "Tab does not come to the chart of memory")
    check(page("return getComputedStyle(document.activeElement).outlineStyle") != "none", "the chart with the focus has no outline")
    page.press("p")
    memory = summary["memory"]["device"]
    check(" on device at " in page.said(), f"P says {page.said()!r}")
    page.press("\ue013")
    names = {buffer["name"] for buffer in memory["at_peak"]}
    check(page.said().split(";")[0] in names, f"arrow up at the peak says {page.said()!r}")
    before = page("return document.querySelector('.range').textContent")
    page.press("+", "+")
    page.settle()
    zoomed = page("return document.querySelector('.range').textContent")
    check(before != zoomed and " of " in zoomed, f"+ leaves {zoomed!r}")
    said = set()
    for _ in range(3):
        page.press("\ue00f")  # Page Down
        said.add(page.said())
    check(len(said) == 3, f"Page Down says {said}")
    page.press("\ue00e", "\ue00e", "\ue00e")
    page.settle()
    zoomed = page("return document.querySelector('.range').textContent")
    for key in ("\ue011", "\ue011", "\ue010"):  # Home, Home, End
        page.press(key)
        page.settle()
        equal(page("return document.querySelector('.range').textContent"), zoomed, "the range after Home or End")
    page.press("0")
    page.settle()
    equal(page("return document.querySelector('.range').textContent"), before, "the range after 0")
    page("document.querySelector('#lanes .plot').focus()")
    page.press("\ue011", "\ue014")
    first = page.said()
    check("lane compute" in first and "takes " in first, f"the lanes say {first!r}")
    page.press("\ue015")
    check("lane compute" not in page.said() and page.said() != first, f"arrow down in the lanes says {page.said()!r}")
    page.press("\ue007")
    page.settle()
    plot = page.plot("#lanes .plot")
    check(plot["last"] - plot["first"] < summary["seconds"] / 2, "Enter does not zoom to the instruction")
    tip = page.point(plot["x"] + plot["left"] + plot["width"] / 2, plot["y"] + plot["rowTop"] + plot["rowStep"] + plot["rowHeight"] / 2)
    equal(tip["title"], page.said().split(";")[0], "the instruction in the middle after Enter")
    page.press("0")


def luminance(colour):
    parts = [int(colour[at:at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def check_colours(page):
    """Texts have the contrast that WCAG 2 asks of them (AA), areas that of graphics; and the button changes the theme."""
    kinds = ["parameter", "gradient", "optimizer_state", "activation", "workspace", "communication"]
    works = ["forward", "backward", "update", "move", "exchange", "small"]
    surfaces = set()
    for _ in range(2):
        colours = page("const style = getComputedStyle(document.documentElement); return Object.fromEntries(arguments[0].map((name) => [name, style.getPropertyValue('--' + name).trim()]))",
                       kinds + works + ["surface", "panel", "track", "ink", "quiet", "accent", "on-colour"])
        surfaces.add(colours["surface"])
        for text in ("ink", "quiet", "accent"):
            for ground in ("surface", "panel"):
                check(contrast(colours[text], colours[ground]) >= 4.5, f"{text} on {ground} has too little contrast")
        check(contrast(colours["quiet"], colours["track"]) >= 4.5, "quiet on track has too little contrast")
        for area in kinds + works:
            check(contrast(colours[area], colours["surface"]) >= 3, f"{area} is too near to the surface")
            check(contrast(colours["on-colour"], colours[area]) >= 4.1, f"texts on {area} have too little contrast")
        page("document.getElementById('theme').click()")
    check(len(surfaces) == 2, "the button does not change the theme")


def check_structure(page):
    check(page("return document.querySelectorAll('h1').length") == 1, "the page has not one heading of the first level")
    check(page("return [...document.querySelectorAll('table')].every((table) => table.caption)"), "a table has no caption")
    check(page("return [...document.querySelectorAll('.plot')].every((plot) => plot.tabIndex === 0 && plot.getAttribute('aria-label'))"),
          "a chart cannot be reached or has no name")
    check(page("return [...document.querySelectorAll('button, select')].every((control) => control.getAttribute('aria-label') || control.textContent || control.labels.length)"),
          "a control has no name")
    check(page("return performance.getEntriesByType('resource').length") == 0, "the page asks for something besides itself")
    check(page("return document.images.length") == 0, "a name has become markup")
    for width in (360, 390, 1440, 3840):
        page.size(width, 900)
        page.settle()
        check(page("return document.documentElement.scrollWidth <= innerWidth"), f"the page is wider than {width} pixels")


def check_comparison(driver, folder):
    page = Page(driver, folder / "compared.html")
    check(page("return document.images.length") == 0, "a hostile name has become markup in the comparison")
    check(HOSTILE in page("return document.getElementById('buffers-body').textContent"), "the comparison does not show the hostile name as text")
    for group in ("measured", "planned"):
        page.choose(group)
        a, b = (json.loads((folder / name / "summary.json").read_text())[group][0] for name in ("a", "b"))
        found = page.figures("main")
        for of, summary in (("a", a), ("b", b)):
            equal(found[of + ".seconds"], [summary["seconds"]], "seconds of " + of)
            for tier, memory in summary["memory"].items():
                equal(found[f"{of}.peak.{tier}"], [memory["peak_bytes"]], f"peak of {of}")
            for link, size in summary["traffic"].items():
                equal(found[f"{of}.traffic.{link}"], [size], f"{link} of {of}")
    check("only in" in page("return document.getElementById('buffers-body').textContent"), "the comparison finds no difference")
    page.size(360, 800)
    check(page("return document.documentElement.scrollWidth <= innerWidth"), "the comparison is wider than a phone")
    check(not page.complaints(), f"the comparison complains: {page.complaints()}")


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "corpus.txt").write_text("All happy families are alike; each unhappy one is unhappy in its own way. " * 200)
        (folder / RUN_NAME).write_text(RUN_FILE)
        strata(program, folder, "profile", RUN_NAME, "--out", "a")
        strata(program, folder, "profile", RUN_NAME, "--out", "b", "--set", "memory.device=800KiB", "--set", "train.recompute=full")
        changed = json.loads((folder / "b" / "summary.json").read_text())
        for group in ("planned", "measured"):
            changed[group][0]["memory"]["device"]["at_peak"][0]["name"] = HOSTILE
        (folder / "b" / "summary.json").write_text(json.dumps(changed))
        strata(program, folder, "profile", "--compare", "a", "b", "--out", "compared.html")
        check(not (folder / "saved").exists() and not (folder / "metrics.jsonl").exists(), "strata profile has written to the run's own files")
        summary = json.loads((folder / "a" / "summary.json").read_text())
        with chromium() as driver:
            page = Page(driver, folder / "a" / "report.html")
            page.size(1440, 900)
            equal(page("return document.getElementById('run').textContent"), RUN_NAME, "the name of the run")
            for source in ("planned", "measured"):
                page.choose(source)
                check_numbers(page, summary[source][0])
                for tier in summary[source][0]["memory"]:
                    check_hover(page, summary[source][0], tier)
            check_keys(page, summary["measured"][0])
            check_colours(page)
            page.choose("both")
            check_structure(page)
            complaints = page.complaints()
            check(not complaints, f"the console has {complaints}")
            check_comparison(driver, folder)
    for sentence in failures[:20]:
        print("page_test.py:", sentence, file=sys.stderr)
    sys.exit(1 if failures else 0)


main()
