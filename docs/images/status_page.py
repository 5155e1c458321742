"""Takes status_page.png: loss, pools and rounds of a job on a coordinator's status page, by a headless Chromium (the Debian packages chromium and fonts-dejavu-core).

    python3 docs/images/status_page.py http://127.0.0.1:7071/#quickstart      while deploy/quickstart.sh trains
"""

import base64
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests/deploy"))
WIDTH, HEIGHT = 1000, 760


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    url = sys.argv.pop()
    import page_test  # It reads the arguments, too.

    browser = page_test.Browser(page_test.chromium(), url)
    try:
        browser.become((WIDTH, HEIGHT), "light")
        deadline = time.monotonic() + 60
        while browser.run("document.body && document.body.dataset.drawn") != "yes":
            if time.monotonic() > deadline:
                sys.exit(f"{url} is not drawn")
            time.sleep(0.2)
        top = browser.run("document.getElementById('loss').previousElementSibling.getBoundingClientRect().top + scrollY - 12")
        clip = {"x": 0, "y": top, "width": WIDTH, "height": HEIGHT, "scale": 1}
        (HERE / "status_page.png").write_bytes(base64.b64decode(browser.ask("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]))
    finally:
        browser.close()


if __name__ == "__main__":
    main()
