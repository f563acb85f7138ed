"""Every screen of the app as a picture, for docs/app.md: `make app-images`.

Not a test: pictures differ by a pixel from one renderer to the next, so they are made on purpose and looked at.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from pathlib import Path

from PIL import Image

from trimask_server.local.cluster import ThreadCluster

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from conftest import MobileLab, Phone  # type: ignore[import-not-found]

OUT = (
    Path(sys.argv[1]).absolute()
    if len(sys.argv) > 1
    else Path(__file__).absolute().parents[2] / "docs" / "images"
)


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    lab = MobileLab(folder / "institutions", right=2, left=0)  # a study of the kind that is drafted
    with ThreadCluster(lab.folder) as lab.cluster:
        the_way(lab, folder)
        on_its_side(lab, folder)
        what_goes_wrong(lab, folder)
        interviews(lab, folder)


def shot(app: Phone, name: str) -> None:
    """Drawn at twice the size and brought to one: type as crisp as on a phone, in a small file."""
    path = OUT / f"app-{name}.png"
    app.do("screenshot", str(path))
    drawn = Image.open(path).convert("RGB")
    half = drawn.resize((drawn.width // 2, drawn.height // 2), Image.Resampling.LANCZOS)
    half.save(path, optimize=True)


def the_way(lab: MobileLab, folder: Path) -> None:
    signed = lab.study()
    with Phone(folder / "one", "--density", "2", "--size", "720x1280") as app:
        app.on("studies")
        shot(app, "welcome")
        app.tap("Open an invitation")
        app.write("link", "trimask://sleep.example.org/jo")
        app.tap("Open")
        shot(app, "invitation")
        app.do("clear", "link")
        app.do("type", lab.link(signed))
        app.tap("Open")
        app.on("study")
        shot(app, "study")
        app.tap("More: who sees what, exact statements, institutions")
        app.do("show_text", "Strong: guessed right")
        shot(app, "study-guarantee")
        app.do("show_text", "Any 1 of the institutions")
        shot(app, "study-seen")
        app.consent_open()
        app.tap("I have read this and agree")
        app.write("name", "Ada Lovelace")
        shot(app, "consent")
        app.tap("Sign and continue")
        app.on("eligibility")
        app.tap("Yes")
        app.write("weeks_ill", "0")
        shot(app, "eligibility")
        app.tap("Next")
        app.see("When were you born?")
        app.date("17", "May", "1984")
        shot(app, "question-date")
        app.tap("Next")
        app.do("slide", 0.7)
        shot(app, "question-slider")
        app.tap("Next")
        app.write("sleep_hours", "75")
        app.tap("Next")
        shot(app, "question-wrong")
        app.do("size", 720, 1280, 2.0)
        shot(app, "question-large")
        app.do("size", 720, 1280, 1.0)
        app.do("clear", "sleep_hours")
        app.do("type", "7.5")
        app.tap("Next")
        app.tap("Yes")
        app.tap("Next")
        app.write("night_shifts", "4")
        app.tap("Next")
        app.key("tab")
        app.key("tab")
        app.key("tab")
        app.key("down")
        shot(app, "question-choice")
        app.tap("Next")
        app.tap("Herbal tea")
        app.tap("Medicine")
        shot(app, "question-several")
        app.tap("Text size and language")
        app.tap("Deutsch")
        shot(app, "settings")
        app.tap("Bekannte Einrichtungen")
        shot(app, "institutions")
        app.tap("Fertig")
        app.tap("Fertig")
        shot(app, "question-german")
        app.tap("Schriftgröße und Sprache")
        app.tap("English")
        app.tap("Done")
        app.tap("Next")
        app.tap("Next")
        app.on("review")
        shot(app, "review")
        with lab.hanging("R2"):
            app.tap("Send")
            app.do("wait_step", "Data Trust North", "busy")
            shot(app, "sending")
            app.tap("My studies")
            app.on("studies")
        app.tap("Details")
        app.see("Sent. Thank you!")
        shot(app, "receipt")
        app.tap("Withdraw my answers")
        shot(app, "withdraw")
        app.tap("Withdraw")
        app.see("Withdrawn")
        shot(app, "withdrawn")


def on_its_side(lab: MobileLab, folder: Path) -> None:
    with Phone(folder / "three", "--density", "2", "--size", "1280x720") as app:
        app.open(lab.link(lab.study()))
        app.consent()
        app.eligible()
        shot(app, "question-landscape")


def what_goes_wrong(lab: MobileLab, folder: Path) -> None:
    signed, other = lab.study(), lab.study()
    with Phone(folder / "two", "--density", "2", "--size", "720x1280") as app:
        app.to_review(lab.link(signed))
        with lab.down("R2"):
            app.tap("Send")
            app.see("It is tried again")
            shot(app, "waiting")
            app.tap("My studies")
            app.on("studies")
            app.open(lab.link(other))
            app.consent()
            app.tap("Back")
            app.tap("Back")
            app.tap("Back")
            app.on("studies")
            shot(app, "studies")
            app.open(lab.link(signed, expires_ms=1))
            app.see("This invitation has expired")
            shot(app, "expired")
            app.tap("My studies")
            with lab.served(lab.study(without="R2")) as link:
                app.open(link)
                app.see("Not everybody has signed")
            shot(app, "unapproved")
            app.tap("My studies")
            app.on("studies")
            app.tap("Text size and language")
            app.tap("Remove everything from this phone")
            app.on("remove")
            shot(app, "remove")


def interviews(lab: MobileLab, folder: Path) -> None:
    """Several respondents on one device; and a phone whose folder cannot be written."""
    signed = lab.study(admission="invited")
    with Phone(folder / "four", "--density", "2", "--size", "720x1280") as app:
        app.on("studies")
        app.tap("Text size and language")
        app.tap("Interviewer mode")
        app.on("interviewer")
        app.write("new pin", "271828")
        app.write("pin again", "271828")
        shot(app, "interviewer")
        app.tap("Begin interviewer mode")
        app.on("interviewing")
        app.do("clipboard", "\n".join(lab.invitations(signed, 12)))
        app.tap("Paste invitations")
        app.see("12 invitations left")
        shot(app, "interviewing")
        with lab.down("R2"):
            app.interviewed()
            app.tap("Send")
            app.see("You may hand the device back")
            app.do("show_text", "Note your number")
            shot(app, "session-waiting")
            app.tap("Finish and hand back")
            app.on("pin")
            shot(app, "pin")
            app.write("pin", "271828")
            app.tap("Unlock")
            app.on("interviewing")
            app.see("Waiting to be sent")
            app.do("show_text", "Number")
            shot(app, "interviewing-uploads")
        app.tap("Next respondent")
        app.on("handed")
        shot(app, "handed")
        app.interviewed(begun=True)
        app.tap("Send")
        app.see("Sent. Thank you!")
        shot(app, "session-receipt")
        app.do("show_text", "Keep my receipt")
        shot(app, "session-code")
    with contextlib.chdir(folder):  # the page names the file, and the picture no folder of whoever makes it
        Path("phone").mkdir()
        Path("phone/app").write_text("in the way")
        with Phone(Path("phone"), "--density", "2", "--size", "720x1280") as app:
            app.see("This phone does not let the app save")
            shot(app, "stuck")


if __name__ == "__main__":
    main()
