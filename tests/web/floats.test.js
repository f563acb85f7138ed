/** Double precision as Python has it, where the two languages part. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { erfc, frexp, fsum, ldexp, roundHalfEven } from "../../client/web/device/floats.js";
import { pythonFloat } from "../../client/web/device/json.js";
import { gaussianDelta } from "../../client/web/device/claims.js";

test("halves go to the even neighbour", () => {
  const values = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999999999999994, 4503599627370495.5, 2 ** 52 + 1];
  assert.deepEqual(values.map((value) => roundHalfEven(value) + 0), [0, 2, 2, 0, -2, -2, 0, 4503599627370496, 2 ** 52 + 1]);
});

test("a sum is rounded once, ties included", () => {
  // The cases of CPython's own tests of math.fsum.
  assert.equal(fsum([1e100, 1, -1e100, 1e-100, 1e50, -1, -1e50]), 1e-100);
  assert.equal(fsum([2 ** 53, -0.5, -(2 ** -54)]), 2 ** 53 - 1);
  assert.equal(fsum([2 ** 53, 1, 2 ** -100]), 2 ** 53 + 2);
  assert.equal(fsum([2 ** 53 + 10, 1, 2 ** -100]), 2 ** 53 + 12);
  assert.equal(fsum([2 ** 53 - 4, 0.5, 2 ** -54]), 2 ** 53 - 3);
  assert.equal(fsum([1e16, 1, 1e-16]), 10000000000000002);
  assert.equal(fsum([1e16 - 2, 1 - 2 ** -53, -(1e16 - 2), -(1 - 2 ** -53)]), 0);
  assert.equal(fsum([]), 0);
});

test("mantissa and exponent, the smallest numbers too", () => {
  for (const value of [1, 0.1, 5e-324, 2 ** -1022, -3.75, 1.7976931348623157e308]) {
    const [mantissa, exponent] = frexp(value);
    assert.ok(Math.abs(mantissa) >= 0.5 && Math.abs(mantissa) < 1);
    assert.equal(ldexp(mantissa, exponent), value);
  }
});

test("the complementary error function, and delta of the Gaussian mechanism", () => {
  // As the C library has them.
  const known = [[0, 1], [0.5, 0.4795001221869535], [1.9, 0.0072095707647425325], [2, 0.004677734981047266], [5, 1.5374597944280349e-12], [10, 2.088487583762545e-45], [-1, 1.8427007929497148]];
  for (const [x, wanted] of known) assert.ok(Math.abs(erfc(x) / wanted - 1) < 1e-12, `${x}: ${erfc(x)}`);
  assert.ok(Math.abs(gaussianDelta(1, 1) / 0.12693673750695247 - 1) < 1e-9);
  assert.equal(gaussianDelta(1, 0), 1);
});

test("numbers as Python writes them", () => {
  const written = { 1: "1.0", 1e16: "1e+16", 1e-5: "1e-05", 0.0001: "0.0001", 123456789012345680: "1.2345678901234568e+17", 1.5e300: "1.5e+300" };
  for (const [value, text] of Object.entries(written)) assert.equal(pythonFloat(Number(value)), text);
  assert.equal(pythonFloat(-0), "-0.0");
});
