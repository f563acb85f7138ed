// For every file of a list, {path: [source, lean]}: whether both are the same tokens to TypeScript's parser, and no comment is left.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

/** @type {any} */
const ts = createRequire(import.meta.url)(process.argv[2]);

/** @param {string} text @returns {string[]} kinds and texts of all tokens, in order */
function tokens(text) {
  const file = ts.createSourceFile("file.js", text, ts.ScriptTarget.ESNext, true, ts.ScriptKind.JS);
  if (file.parseDiagnostics.length) throw new Error(file.parseDiagnostics[0].messageText);
  /** @type {string[]} */
  const found = [];
  const walk = (/** @type {any} */ node) => {
    if (ts.isJSDoc(node)) return;
    const children = node.getChildren(file);
    if (children.length) children.forEach(walk);
    // A list without members is nothing; every token has its text.
    else if (node.kind !== ts.SyntaxKind.SyntaxList) found.push(`${ts.SyntaxKind[node.kind]} ${node.getText(file)}`);
  };
  walk(file);
  return found;
}

const pairs = JSON.parse(readFileSync(process.argv[3], "utf8"));
let seen = 0;
for (const [path, [source, lean]] of Object.entries(pairs)) {
  const before = tokens(source);
  const after = tokens(lean);
  const at = before.findIndex((token, place) => token !== after[place]);
  if (at >= 0 || before.length !== after.length) throw new Error(`${path}: ${before[at]} became ${after[at]}`);
  seen += before.length;
}
console.log(`${Object.keys(pairs).length} files, ${seen} tokens alike`);
