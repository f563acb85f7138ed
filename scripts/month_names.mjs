// The months' names as a list has them, from the Unicode CLDR that node carries, in every language of ISO 639-1 (and Filipino)
// whose names are in Latin, Greek or Cyrillic letters: those the app's font has.
//
//     node scripts/month_names.mjs > mobile/trimask_mobile/words/months.json

const letters = "abcdefghijklmnopqrstuvwxyz";
const tags = [...letters].flatMap((one) => [...letters].map((other) => one + other)).concat("fil");
const ours = /^[\p{Script=Latin}\p{Script=Greek}\p{Script=Cyrillic}\p{Script=Common}\p{Script=Inherited}]+$/u;
const lacking = /[\u0186\u0190\u0254\u0257\u025b\u02bb\u030c\u1e62\u1e63]/u; // letters that font has not; a test says when there are more
const found = {};
for (const tag of tags) {
  // Greek has its nominative beside a year only.
  const beside = tag === "el" ? { year: "numeric" } : {};
  const format = new Intl.DateTimeFormat(`${tag}-u-ca-gregory-nu-latn`, { month: "long", timeZone: "UTC", ...beside });
  if (!format.resolvedOptions().locale.startsWith(tag)) continue; // node has another language in its place
  const names = Array.from({ length: 12 }, (_, month) => {
    const parts = format.formatToParts(new Date(Date.UTC(2001, month, 15)));
    const name = beside.year ? parts.filter((part) => part.type === "month") : parts;
    return name.map((part) => part.value).join("").normalize("NFC");
  });
  if (new Set(names).size === 12 && names.every((name) => ours.test(name) && !lacking.test(name)) && names.some((name) => !/^M?\d+$/.test(name))) {
    found[tag] = names;
  }
}
process.stdout.write(`{\n${Object.entries(found).map(([tag, names]) => ` "${tag}": ${JSON.stringify(names)}`).join(",\n")}\n}\n`);
