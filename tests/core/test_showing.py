"""Which languages the app can show a form in."""

from __future__ import annotations

from trimask_core.form.font_coverage import app_cannot_show, app_languages
from trimask_core.form.form import Form, Question
from trimask_core.form.texts import Texts


def _form(**texts: str) -> Form:
    languages = tuple(texts)
    return Form(languages, (Question("age", "integer", Texts(tuple(texts.items()))),))


def test_what_the_app_cannot_show() -> None:
    form = _form(en="Age?", de="Älter – 7 ½ Jahre „so“", el="Ηλικία", ru="Возраст", hi="आयु", ar="العمر")
    assert app_languages(form) == ("en", "de", "el", "ru")
    hindi, arabic = app_cannot_show(form, "hi"), app_cannot_show(form, "ar")
    assert hindi is not None
    assert arabic is not None
    assert (hindi.right_to_left, hindi.characters, hindi.where) == (False, "आयु", "form.questions.age.label")
    assert arabic.right_to_left
    assert hindi.is_script


def test_a_sign_among_letters_is_no_script() -> None:
    found = app_cannot_show(_form(en="Age? \U0001f642 → now"), "en")
    assert found is not None
    assert found.characters == "\U0001f642→"
    assert not found.is_script


def test_a_language_written_from_right_to_left_in_other_letters() -> None:
    assert app_languages(_form(**{"az-Latn": "Yaş"})) == ("az-Latn",)
    assert app_languages(_form(**{"ku-Arab": "x"})) == ()
