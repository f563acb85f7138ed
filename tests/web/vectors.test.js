/** Every vector, by node. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { CHECKS } from "./vector_checks.js";

const FOLDER = new URL("../vectors/", import.meta.url);
for (const [name, check] of Object.entries(CHECKS)) {
  test(name, async () => {
    assert.ok((await check((file) => readFile(new URL(file, FOLDER), "utf8"))) > 0);
  });
}
