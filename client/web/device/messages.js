// Made by scripts/web_tables.py; do not edit.
/** For each field its number, name, type, and whether it is repeated or optional. */
export const MESSAGES = /** @type {const} */ ({
  SubmitRequest: [[1, "studyId", "bytes"], [2, "submissionId", "bytes"], [3, "sealedComponent", "bytes"], [4, "invitation", "bytes"], [5, "sealingKeyId", "bytes"]],
  SubmitResponse: [[1, "receiveTimeMs", "int64"], [2, "signature", "bytes"]],
  GetSealingKeysRequest: [],
  GetSealingKeysResponse: [[1, "keys", "SealingKeyRecord", "repeated"]],
  SealingKeyRecord: [[1, "publicKey", "bytes"], [2, "activateTimeMs", "int64"], [3, "expireTimeMs", "int64"], [4, "signature", "bytes"]],
  WithdrawRequest: [[1, "studyId", "bytes"], [2, "withdrawalKey", "bytes"], [3, "invitation", "bytes"]],
  WithdrawResponse: [[1, "withdrawTimeMs", "int64"], [2, "signature", "bytes"]],
  AskSubmissionRequest: [[1, "studyId", "bytes"], [2, "submissionId", "bytes"], [3, "sealedHash", "bytes"], [4, "invitation", "bytes"]],
  AskSubmissionResponse: [[1, "reason", "string"]],
  GetStudyRequest: [[1, "studyId", "bytes"], [2, "forDevice", "bool"]],
  GetStudyResponse: [[1, "signedStudy", "bytes"]],
  GetBudgetRequest: [[1, "studyId", "bytes"]],
  GetBudgetResponse: [[1, "state", "enum"], [2, "total", "Purses"], [3, "spent", "Purses"], [4, "left", "Purses"], [5, "rows", "uint64"], [6, "entries", "BudgetEntry", "repeated"]],
  Purses: [[1, "epsilon", "double", "optional"], [2, "delta", "double", "optional"], [3, "mu", "double", "optional"]],
  BudgetEntry: [[1, "mechanism", "string"], [2, "cost", "Purses"], [3, "reserveTimeMs", "int64"], [4, "state", "enum"]],
  GetStudyStatusRequest: [[1, "studyId", "bytes"]],
  GetStudyStatusResponse: [[1, "state", "enum"]],
});
