// Recomputes what form_cases.py wrote and says where it differs: `node form_vectors.js CASES.json`.

import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { AnswerError } from "../../client/web/device/errors.js";
import { Form } from "../../client/web/form/form.js";

const cases = JSON.parse(readFileSync(process.argv[2], "utf8"));
let compared = 0;
const wrong = [];

const tried = (work) => {
  try {
    return { value: work() };
  } catch (error) {
    if (!(error instanceof AnswerError)) throw error;
    return { problem: [error.field, error.problem] };
  }
};

for (const { seed, form: data, people } of cases) {
  const form = new Form(data);
  for (const person of people) {
    const { language, responses } = person;
    const chosen = form.language(language);
    const pages = form.pagesFor(responses, language);
    const checked = (question) => {
      const found = tried(() => question.check(responses[question.name], chosen));
      const { control, several, whole } = question.rules;
      const seen = { ...found, control: [control, several, whole], offered: question.offered(chosen) };
      return "problem" in found ? seen : { ...seen, shown: question.shown(found.value, chosen) };
    };
    const mine = {
      language, chosen, responses,
      pages: pages.map((page) => [page.name, page.headings.map(({ name }) => name), page.questions.map(({ name }) => name)]),
      checked: Object.fromEntries(pages.flatMap((page) => page.questions.map((question) => [question.name, checked(question)]))),
      answers: tried(() => form.answers(responses, language)),
      eligible: tried(() => form.eligible(responses, language)),
      first: form.eligibilityFirst,
      consent: form.consent(language)?.text ?? null,
    };
    for (const key of Object.keys(person)) {
      compared += 1;
      // Through JSON, where -0 is 0, as in an answer.
      if (!isDeepStrictEqual(JSON.parse(JSON.stringify(mine[key])), JSON.parse(JSON.stringify(person[key])))) {
        wrong.push({ seed, key, language, responses, python: person[key], here: mine[key] });
      }
    }
  }
}
console.log(JSON.stringify({ compared, wrong: wrong.slice(0, 3), count: wrong.length }, null, 1));
process.exitCode = wrong.length > 0 ? 1 : 0;
