// Whether what is served is the sources' tokens, to TypeScript's own parser, and no comment is left.
//   pairs: {path: [source, lean]}, compared as they are
//   script: {text, modules: [[path, source], ...] in the order of the script, files: {path: name of a file of its own}}
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { posix } from "node:path";

/** @type {any} */
const ts = createRequire(import.meta.url)(process.argv[2]);

/** @param {string} text */
function parsed(text) {
  const file = ts.createSourceFile("file.js", text, ts.ScriptTarget.ESNext, true, ts.ScriptKind.JS);
  if (file.parseDiagnostics.length) throw new Error(file.parseDiagnostics[0].messageText);
  return file;
}

/** @param {string} text @returns {string[]} kinds and texts of all tokens, in order */
function tokens(text) {
  const file = parsed(text);
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

/** What a module is to be in the one script, from its own tree. @param {string} path @param {string} source
 * @param {(name: string) => string} where what stands for a module: a constant, or the file of its own @param {boolean} last */
function asFunction(path, source, where, last) {
  const file = parsed(source);
  /** @type {string[]} */ const lines = [];
  /** @type {string[]} */ const given = [];
  const at = (/** @type {any} */ node) => where(posix.join(posix.dirname(path), node.text));
  for (const statement of file.statements) {
    const named = (/** @type {any} */ list) => list.elements.map((/** @type {any} */ one) => [one.propertyName?.text ?? one.name.text, one.name.text]);
    if (ts.isImportDeclaration(statement)) {
      const { name, namedBindings: bound } = statement.importClause;
      const module = at(statement.moduleSpecifier);
      if (name) lines.push(`const { default: ${name.text} } = ${module};`);
      else if (ts.isNamespaceImport(bound)) lines.push(`const ${bound.name.text} = ${module};`);
      else lines.push(`const { ${named(bound).map(([one, own]) => (one === own ? one : `${one}: ${own}`)).join(", ")} } = ${module};`);
    } else if (ts.isExportDeclaration(statement)) {
      given.push(...named(statement.exportClause).map(([one, own]) => `${own}: ${at(statement.moduleSpecifier)}.${one}`));
    } else if (ts.isExportAssignment(statement)) {
      lines.push(`const $default = ${statement.expression.getText(file)};`);
      given.push("default: $default");
    } else {
      const [first] = statement.modifiers ?? [];
      const out = first?.kind === ts.SyntaxKind.ExportKeyword;
      lines.push(out ? source.slice(first.end, statement.end) : statement.getText(file));
      if (out) given.push(...(statement.declarationList?.declarations ?? [statement]).map((/** @type {any} */ one) => one.name.text));
    }
  }
  // What is imported when it is needed is in the script already, or a file of its own.
  const body = lines.join("\n").replace(/\bimport\("(\.[^"]+)"\)/g, (_, name) => {
    const there = where(posix.join(posix.dirname(path), name));
    return there.startsWith("$") ? `Promise.resolve(${there})` : `import("./${there}")`;
  });
  return last ? body : `const ${where(path)} = (() => { ${body}\nreturn { ${given.join(", ")} }; })();`;
}

const { pairs, script } = JSON.parse(readFileSync(process.argv[3], "utf8"));
if (script) {
  const { text, modules, files } = script;
  const places = new Map(modules.map(([path], /** @type {number} */ place) => [path, `$${place}`]));
  const where = (/** @type {string} */ path) => places.get(path) ?? files[path];
  const whole = modules.map(([path, source], /** @type {number} */ place) => asFunction(path, source, where, place === modules.length - 1));
  pairs["the one script"] = [whole.join("\n"), text];
}
let seen = 0;
for (const [path, [source, lean]] of Object.entries(pairs)) {
  const before = tokens(source);
  const after = tokens(lean);
  const at = before.findIndex((token, place) => token !== after[place]);
  if (at >= 0 || before.length !== after.length) throw new Error(`${path}: ${before[at]} became ${after[at]}`);
  seen += before.length;
}
console.log(`${Object.keys(pairs).length} files, ${seen} tokens alike`);
