// A form with something in it that this page does not know.

export { AnswerError } from "../device/errors.js";

/** It is refused, not shown in part. */
export class FormError extends Error {
  /** @param {string} message */
  constructor(message) {
    super(message);
    this.name = "FormError";
  }
}
