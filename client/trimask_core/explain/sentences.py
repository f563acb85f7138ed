"""`plain_truth` in sentences, in the languages the app has; English elsewhere. The exact statement is beside them."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from trimask_core.explain.facts import Promise, Seen, Step, Truth, whole_truth
from trimask_core.study.definition import Study

_MOST_NAMED = (
    3  # groups that see the same, before they are counted in place of named; the exact statement names all
)


@dataclass(frozen=True)
class PlainPromise:
    """`towards` is a heading, `word` the step in a word, `step` its stable name; then sentences."""

    towards: str
    step: Step
    word: str
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class PlainTruth:
    """The promises, the weaker first, and who could see what: (who, what), those who see most first."""

    promises: tuple[PlainPromise, ...]
    seen: tuple[tuple[str, str], ...]
    note: str

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        return asdict(self)


def plain_truth(study: Study, language: str) -> PlainTruth:
    """What a person reads about a study before the first question."""
    truth, say = whole_truth(study), _say(language)
    promises = tuple(_promise(study, promise, say) for promise in truth.promises)
    return PlainTruth(promises, _seen(study, truth, say), say["note"] if _has_scale(truth) else "")


def step_word(step: Step, language: str) -> str:
    """A step in a word."""
    return _say(language)[f"step.{step}"]


def guess_sentence(guess: int | None, language: str) -> str:
    """An attacker's best guess in a sentence."""
    say = _say(language)
    if guess is None:
        return say["guess.none"]
    return say["guess.sure"] if guess >= 100 else say["guess"].format(guess=guess)


def _has_scale(truth: Truth) -> bool:
    return any(promise.step != "none" for promise in truth.promises)


def _promise(study: Study, promise: Promise, say: dict[str, str]) -> PlainPromise:
    name = _names(study, ("collector",), say)
    heading = say[f"towards.{promise.towards}"].format(collector=name, people=promise.people)
    if promise.guess is None:
        sentences = [say["guess.none"]]
    else:
        sentences = [say["guess.sure"] if promise.guess >= 100 else say["guess"].format(guess=promise.guess)]
    sentences += [say[f"why.{reason}"].format(people=promise.people) for reason in promise.why]
    if promise.if_half is not None and promise.if_none is not None and promise.if_none != promise.step:
        half, none = say[f"step.{promise.if_half}"], say[f"step.{promise.if_none}"]
        sentences.append(say["honest.same" if half == none else "honest"].format(half=half, none=none))
    if promise.providers:
        key = "providers.one" if promise.providers == 1 else "providers.many"
        sentences.append(say[key].format(number=promise.providers, of=promise.of))
    if (
        promise.towards == "public" and promise.guess is not None
    ):  # rows: one changed institution may reach further
        sentences.append(say["agreed"])
    return PlainPromise(heading, promise.step, say[f"step.{promise.step}"], tuple(sentences))


def _seen(study: Study, truth: Truth, say: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """Who could see what, a line each. Many groups of one size that see the same are one line: nobody reads twenty."""
    groups = [line for line in truth.seen if line.who == "group"]
    alike = Counter(map(_kind, groups))
    told: dict[tuple[str, str], None] = {}  # in order, each once
    for line in groups:
        number, size = alike[_kind(line)], len(line.parties)
        many = say["who.groups"].format(number=number, size=size)
        who = _names(study, line.parties, say) if number <= _MOST_NAMED else many
        told[who, _what(study, line, say)] = None
        if truth.larger_groups and line is _last_unblurred(groups):
            key = "who.larger.one" if truth.larger_groups == 1 else "who.larger.many"
            told[say[key].format(number=truth.larger_groups), say["what.answers"]] = None
    others = [(_who(study, line, say), _what(study, line, say)) for line in truth.seen if line.who != "group"]
    return (*told, *others)


def _kind(line: Seen) -> tuple[str, bool, int]:
    return line.what, line.needs_device, len(line.parties)


def _last_unblurred(groups: list[Seen]) -> Seen:
    """They come first; larger groups that see the same follow."""
    return [line for line in groups if line.what != "blurred"][-1]


def _who(study: Study, line: Seen, say: dict[str, str]) -> str:
    return say[f"who.{line.who}"].format(number=line.number, collector=_names(study, ("collector",), say))


def _what(study: Study, line: Seen, say: dict[str, str]) -> str:
    text = say[f"what.{line.what}"].format(number=line.number, collector=_names(study, ("collector",), say))
    return f"{text}, {say['device']}" if line.needs_device else text


def _names(study: Study, roles: tuple[str, ...], say: dict[str, str]) -> str:
    names = [study.party(role).organisation or study.party(role).name or role for role in roles]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {say['and']} {names[-1]}"


def _say(language: str) -> dict[str, str]:
    return SENTENCES.get(language.replace("_", "-").split("-")[0].lower(), SENTENCES["en"])


SENTENCES: dict[str, dict[str, str]] = {
    "en": {
        "and": "and",
        "step.none": "none",
        "step.weak": "weak",
        "step.medium": "medium",
        "step.strong": "strong",
        "towards.public": "Towards everybody who sees what is published",
        "towards.collector": "Towards {collector}, which collects",
        "towards.everybody": "Towards everybody, the institutions included",
        "guess": "Somebody who knows all but which of two answers you gave can guess right {guess} times in 100 at most. A "
        "coin is right 50 times.",
        "guess.sure": "Somebody who knows all but which of two answers you gave may find out with near certainty.",
        "guess.none": "Nothing is promised here: no noise is added, so somebody who knows everybody else's answers could "
        "work yours out.",
        "why.delta": "The chance that the promise fails is above one in {people}, the people in it: that is too much.",
        "why.record": "The promise is about a small change of an answer, not about your answers as a whole.",
        "why.limit": "It is worked out for very many people, and not proved for these.",
        "honest": "The other people's noise hides you too. If half of them gave theirs away: {half}. If all did: {none}.",
        "honest.same": "The other people's noise hides you too. If half of them or more gave theirs away: {half}.",
        "agreed": "As long as every institution runs the agreed program; what one with a changed program could see is "
        "listed too.",
        "providers.one": "As long as one of the {of} institutions adds its noise as agreed.",
        "providers.many": "As long as {number} of the {of} institutions add their noise as agreed.",
        "note": "Strong: guessed right in at most 3 of 4 cases. Medium: in at most 9 of 10. Weak: more.",
        "who.everybody": "Everybody, once it is published",
        "who.collector": "{collector}, which collects",
        "who.one": "Any one institution alone",
        "who.fewer": "Any {number} of the institutions, whatever programs they run",
        "who.one_changed": "One institution whose program was changed",
        "who.more_changed": "Two or more whose programs were changed",
        "who.collector_changed": "{collector} with a changed program",
        "who.collector_and_changed": "{collector} and one other, with changed programs",
        "who.groups": "{number} groups of {size} institutions",
        "who.larger.one": "One larger group",
        "who.larger.many": "One of {number} larger groups",
        "device": "if one participant helps them",
        "what.sums_noise": "sums over {number} people or more, with noise",
        "what.sums_exact": "sums over {number} people or more, exactly",
        "what.blocks": "sums over {number} people, which it is to forget at once",
        "what.nothing": "random numbers",
        "what.totals_noise": "sums, with noise",
        "what.totals_exact": "sums, exactly",
        "what.as_collector": "no more than {collector} sees",
        "what.as_published": "no more than everybody",
        "what.answers": "your answers",
        "what.estimates": "close estimates of your answers",
        "what.blurred": "your answers, blurred by noise",
        "what.chosen": "the answers of one person of its choice, in what is published",
        "what.subtracted": "your answers, by bringing all the others itself",
        "what.unknown": "perhaps your answers: nothing is promised against that",
    },
    "de": {
        "and": "und",
        "step.none": "keiner",
        "step.weak": "schwach",
        "step.medium": "mittel",
        "step.strong": "stark",
        "towards.public": "Gegenüber allen, die das Veröffentlichte sehen",
        "towards.collector": "Gegenüber {collector} (sammelt ein)",
        "towards.everybody": "Gegenüber allen, auch den Einrichtungen",
        "guess": "Wer alles weiß, nur nicht, welche von zwei Antworten Sie gaben, rät höchstens in {guess} von 100 Fällen "
        "richtig. Eine Münze liegt in 50 richtig.",
        "guess.sure": "Wer alles weiß, nur nicht, welche von zwei Antworten Sie gaben, kann es womöglich fast sicher "
        "herausfinden.",
        "guess.none": "Hier ist nichts zugesagt: Es kommt kein Rauschen hinzu. Wer die Antworten aller anderen kennt, "
        "könnte Ihre errechnen.",
        "why.delta": "Die Zusage darf öfter als einmal in {people} Fällen, der Zahl der Menschen darin, versagen: zu oft.",
        "why.record": "Die Zusage betrifft eine kleine Änderung einer Antwort, nicht Ihre Antworten als Ganzes.",
        "why.limit": "Sie ist für sehr viele Menschen berechnet und für diese nicht bewiesen.",
        "honest": "Auch das Rauschen der anderen verbirgt Sie. Gäbe es die Hälfte von ihnen preis: {half}. Alle: {none}.",
        "honest.same": "Auch das Rauschen der anderen verbirgt Sie. Gäbe es die Hälfte von ihnen oder mehr preis: {half}.",
        "agreed": "Solange jede Einrichtung das vereinbarte Programm betreibt; was eine mit verändertem Programm sehen "
        "könnte, ist auch aufgeführt.",
        "providers.one": "Solange eine der {of} Einrichtungen ihr Rauschen wie vereinbart hinzufügt.",
        "providers.many": "Solange {number} der {of} Einrichtungen ihr Rauschen wie vereinbart hinzufügen.",
        "note": "Stark: in höchstens 3 von 4 Fällen richtig geraten. Mittel: in höchstens 9 von 10. Schwach: öfter.",
        "who.everybody": "Alle, sobald es veröffentlicht ist",
        "who.collector": "{collector} (sammelt ein)",
        "who.one": "Jede einzelne Einrichtung allein",
        "who.fewer": "Je {number} der Einrichtungen, mit welchen Programmen auch immer",
        "who.one_changed": "Eine Einrichtung, deren Programm verändert wurde",
        "who.more_changed": "Zwei oder mehr, deren Programme verändert wurden",
        "who.collector_changed": "{collector} mit verändertem Programm",
        "who.collector_and_changed": "{collector} und eine weitere, mit veränderten Programmen",
        "who.groups": "{number} Gruppen aus {size} Einrichtungen",
        "who.larger.one": "Eine größere Gruppe",
        "who.larger.many": "Eine von {number} größeren Gruppen",
        "device": "wenn eine teilnehmende Person ihnen hilft",
        "what.sums_noise": "Summen über {number} Menschen oder mehr, mit Rauschen",
        "what.sums_exact": "Summen über {number} Menschen oder mehr, genau",
        "what.blocks": "Summen über {number} Menschen, die sofort zu vergessen sind",
        "what.nothing": "Zufallszahlen",
        "what.totals_noise": "Summen, mit Rauschen",
        "what.totals_exact": "Summen, genau",
        "what.as_collector": "nicht mehr, als {collector} sieht",
        "what.as_published": "nicht mehr als alle",
        "what.answers": "Ihre Antworten",
        "what.estimates": "gute Schätzungen Ihrer Antworten",
        "what.blurred": "Ihre Antworten, von Rauschen verwischt",
        "what.chosen": "die Antworten einer Person ihrer Wahl, im Veröffentlichten",
        "what.subtracted": "Ihre Antworten, indem sie alle anderen selbst stellt",
        "what.unknown": "vielleicht Ihre Antworten: dagegen ist nichts zugesagt",
    },
    "ar": {
        "and": "و",
        "step.none": "لا شيء",
        "step.weak": "ضعيفة",
        "step.medium": "متوسطة",
        "step.strong": "قوية",
        "towards.public": "تجاه كل من يرى ما يُنشر",
        "towards.collector": "تجاه {collector}، التي تجمع الإجابات",
        "towards.everybody": "تجاه الجميع، والمؤسسات منهم",
        "guess": "من يعرف كل شيء إلا أيًّا من إجابتين اخترت يصيب في تخمينه {guess} مرة من 100 على "
        "الأكثر. ورمي قطعة نقود يصيب 50 مرة.",
        "guess.sure": "من يعرف كل شيء إلا أيًّا من إجابتين اخترت قد يكتشف ذلك على وجه شبه مؤكد.",
        "guess.none": "لا وعد هنا: لا يُضاف تشويش، ومن يعرف إجابات الآخرين جميعًا يستطيع استنتاج إجاباتك.",
        "why.delta": "احتمال إخفاق الوعد أكبر من واحد في {people}، وهو عدد الناس فيه: وهذا كثير.",
        "why.record": "يتعلق الوعد بتغيير صغير في إجابة، لا بإجاباتك كلها.",
        "why.limit": "حُسب لعدد كبير جدًا من الناس، ولم يُبرهن لهؤلاء.",
        "honest": "يخفيك تشويش الآخرين أيضًا. لو كشف نصفهم تشويشهم: {half}. ولو كشفوه جميعًا: {none}.",
        "honest.same": "يخفيك تشويش الآخرين أيضًا. لو كشف نصفهم أو أكثر تشويشهم: {half}.",
        "agreed": "ما دامت كل مؤسسة تشغّل البرنامج المتفق عليه؛ وما قد تراه مؤسسة عُدّل برنامجها مذكور أيضًا.",
        "providers.one": "ما دامت مؤسسة واحدة من {of} تضيف تشويشها كما اتُّفق عليه.",
        "providers.many": "ما دامت {number} من {of} مؤسسات تضيف تشويشها كما اتُّفق عليه.",
        "note": "قوية: تخمين صائب في 3 حالات من 4 على الأكثر. متوسطة: في 9 من 10 على الأكثر. ضعيفة: أكثر من ذلك.",
        "who.everybody": "الجميع، بعد النشر",
        "who.collector": "{collector}، التي تجمع الإجابات",
        "who.one": "أي مؤسسة وحدها",
        "who.fewer": "أي {number} من المؤسسات، أيًّا كانت برامجها",
        "who.one_changed": "مؤسسة واحدة عُدّل برنامجها",
        "who.more_changed": "اثنتان أو أكثر عُدّلت برامجها",
        "who.collector_changed": "{collector} ببرنامج معدّل",
        "who.collector_and_changed": "{collector} وأخرى، ببرنامجين معدّلين",
        "who.groups": "مجموعات من {size} مؤسسات (عددها {number})",
        "who.larger.one": "مجموعة واحدة أكبر",
        "who.larger.many": "واحدة من {number} مجموعات أكبر",
        "device": "إن ساعدها أحد المشاركين",
        "what.sums_noise": "مجاميع عن {number} شخصًا أو أكثر، مع تشويش",
        "what.sums_exact": "مجاميع عن {number} شخصًا أو أكثر، بدقة",
        "what.blocks": "مجاميع عن {number} شخصًا، عليها أن تنساها فورًا",
        "what.nothing": "أعدادًا عشوائية",
        "what.totals_noise": "مجاميع، مع تشويش",
        "what.totals_exact": "مجاميع، بدقة",
        "what.as_collector": "لا أكثر مما ترى {collector}",
        "what.as_published": "لا أكثر مما يراه الجميع",
        "what.answers": "إجاباتك",
        "what.estimates": "تقديرات قريبة من إجاباتك",
        "what.blurred": "إجاباتك، يغشاها التشويش",
        "what.chosen": "إجابات شخص واحد تختاره، فيما يُنشر",
        "what.subtracted": "إجاباتك، بأن تأتي بكل الآخرين بنفسها",
        "what.unknown": "ربما إجاباتك: لا وعد ضد ذلك",
    },
    "hi": {
        "and": "और",
        "step.none": "कोई नहीं",
        "step.weak": "कमज़ोर",
        "step.medium": "मध्यम",
        "step.strong": "मज़बूत",
        "towards.public": "हर उस व्यक्ति के सामने जो प्रकाशित चीज़ देखता है",
        "towards.collector": "{collector} के सामने, जो उत्तर इकट्ठा करता है",
        "towards.everybody": "सबके सामने, संस्थाओं सहित",
        "guess": "जो सब कुछ जानता हो, सिवाय इसके कि दो में से कौन-सा उत्तर आपने दिया, वह 100 में "
        "से अधिक से अधिक {guess} बार सही अनुमान लगा सकता है। सिक्का 50 बार सही होता है।",
        "guess.sure": "जो सब कुछ जानता हो, सिवाय इसके कि दो में से कौन-सा उत्तर आपने दिया, वह शायद "
        "लगभग निश्चित रूप से जान ले।",
        "guess.none": "यहाँ कोई वादा नहीं है: शोर नहीं जोड़ा जाता, इसलिए जो बाकी सबके उत्तर जानता हो "
        "वह आपके उत्तर निकाल सकता है।",
        "why.delta": "वादा टूटने की संभावना {people} में एक से अधिक है, जितने लोग उसमें हैं: यह बहुत अधिक है।",
        "why.record": "वादा किसी उत्तर में छोटे बदलाव के बारे में है, आपके पूरे उत्तरों के बारे में नहीं।",
        "why.limit": "यह बहुत अधिक लोगों के लिए निकाला गया है, और इन लोगों के लिए सिद्ध नहीं है।",
        "honest": "दूसरे लोगों का शोर भी आपको छिपाता है। यदि उनमें से आधे अपना शोर बता दें: "
        "{half}। यदि सभी बता दें: {none}।",
        "honest.same": "दूसरे लोगों का शोर भी आपको छिपाता है। यदि उनमें से आधे या अधिक अपना शोर बता दें: {half}।",
        "agreed": "जब तक हर संस्था तय किया हुआ प्रोग्राम चलाती है; जिसका प्रोग्राम बदला गया हो वह क्या देख सकती है, यह भी बताया गया है।",
        "providers.one": "जब तक {of} संस्थाओं में से एक तय किए अनुसार अपना शोर जोड़ती है।",
        "providers.many": "जब तक {of} संस्थाओं में से {number} तय किए अनुसार अपना शोर जोड़ती हैं।",
        "note": "मज़बूत: 4 में से अधिक से अधिक 3 बार सही अनुमान। मध्यम: 10 में से अधिक से अधिक 9 बार। कमज़ोर: इससे अधिक।",
        "who.everybody": "सब लोग, प्रकाशित होने पर",
        "who.collector": "{collector}, जो उत्तर इकट्ठा करता है",
        "who.one": "कोई भी एक संस्था अकेली",
        "who.fewer": "कोई भी {number} संस्थाएँ, वे जो भी प्रोग्राम चलाएँ",
        "who.one_changed": "एक संस्था जिसका प्रोग्राम बदला गया हो",
        "who.more_changed": "दो या अधिक जिनके प्रोग्राम बदले गए हों",
        "who.collector_changed": "बदले हुए प्रोग्राम के साथ {collector}",
        "who.collector_and_changed": "{collector} और एक दूसरी, बदले हुए प्रोग्रामों के साथ",
        "who.groups": "{size} संस्थाओं के {number} समूह",
        "who.larger.one": "एक बड़ा समूह",
        "who.larger.many": "{number} बड़े समूहों में से एक",
        "device": "यदि एक प्रतिभागी उनकी मदद करे",
        "what.sums_noise": "{number} या अधिक लोगों के योग, शोर के साथ",
        "what.sums_exact": "{number} या अधिक लोगों के योग, सटीक",
        "what.blocks": "{number} लोगों के योग, जिन्हें तुरंत भुला देना है",
        "what.nothing": "यादृच्छिक संख्याएँ",
        "what.totals_noise": "योग, शोर के साथ",
        "what.totals_exact": "योग, सटीक",
        "what.as_collector": "जितना {collector} देखता है उससे अधिक नहीं",
        "what.as_published": "जितना सब देखते हैं उससे अधिक नहीं",
        "what.answers": "आपके उत्तर",
        "what.estimates": "आपके उत्तरों के निकट अनुमान",
        "what.blurred": "आपके उत्तर, शोर से धुँधले",
        "what.chosen": "प्रकाशित चीज़ में, अपनी पसंद के एक व्यक्ति के उत्तर",
        "what.subtracted": "आपके उत्तर, बाकी सबको स्वयं लाकर",
        "what.unknown": "शायद आपके उत्तर: इसके विरुद्ध कोई वादा नहीं है",
    },
}
