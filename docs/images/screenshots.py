#!/usr/bin/python3
"""Makes the pictures of this folder anew: screenshots.py [STRATA], from the repository's root. Debian's Python, Chromium and Selenium."""
import base64
import pathlib
import subprocess
import sys
import tempfile

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

SIZES = {"phone": (390, 844, 2), "laptop": (1440, 900, 1), "4k": (3840, 2160, 1)}
# The pointer over the largest buffer at the device's peak.
POINT = """const plot = document.querySelector('.plot[data-tier=device]'), box = plot.getBoundingClientRect(), data = plot.dataset;
const chart = charts.find((chart) => chart.plot === plot), tier = chart.tier, time = tier.times[tier.peak];
let below = 0;
const alive = chart.aliveAt(tier.peak), largest = alive.reduce((a, b) => (chart.profile.bytes[a] >= chart.profile.bytes[b] ? a : b));
for (const life of alive) { if (life === largest) break; below += chart.profile.bytes[life]; }
plot.dispatchEvent(new MouseEvent('mousemove', {clientX: box.left + chart.x(time) + 3, clientY: box.top + chart.y(below + chart.profile.bytes[largest] / 2)}));"""


def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(argument)
    return webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))


def take(driver, page, picture, size, dark, script="", full=False):
    width, height, scale = size
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                           {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": False})
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia",
                           {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})
    driver.get(page.as_uri())
    driver.execute_script(script)
    driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]));")
    shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "webp", "quality": 82, "captureBeyondViewport": full})
    picture.write_bytes(base64.b64decode(shot["data"]))


def main():
    strata, folder = sys.argv[1] if len(sys.argv) > 1 else "build/strata", pathlib.Path("docs/images")
    with tempfile.TemporaryDirectory() as name, browser() as driver:
        work = pathlib.Path(name)
        quickstart = [strata, "profile", "examples/quickstart.yaml"]
        subprocess.run([*quickstart, "--out", work / "a"], check=True, capture_output=True)
        subprocess.run([*quickstart, "--out", work / "b", "--set", "train.recompute=full", "--set", "memory.device=20MiB"],
                       check=True, capture_output=True)
        subprocess.run([pathlib.Path(strata).resolve(), "profile", "--compare", "a", "b", "--out", "compared.html"], check=True, capture_output=True, cwd=work)
        for size, measures in SIZES.items():
            for dark in (False, True):
                theme = "dark" if dark else "light"
                script = POINT if size != "phone" else "document.getElementById('memory').scrollIntoView();" + POINT
                take(driver, work / "a" / "report.html", folder / f"report-{size}-{theme}.webp", measures, dark, script)
        take(driver, work / "a" / "report.html", folder / "report-peak-light.webp", SIZES["laptop"], False, "document.getElementById('peak').scrollIntoView();")
        take(driver, work / "compared.html", folder / "compared-laptop-light.webp", SIZES["laptop"], False)


main()
