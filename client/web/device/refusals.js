// Made by scripts/web_tables.py; do not edit.
/** For each reason that says more than its gRPC status: that, whether to ask again, its texts for a person. */
export const REFUSALS = /** @type {const} */ ({
  already_answered:["ALREADY_EXISTS","never","answered"], already_in_block:["FAILED_PRECONDITION","later","combined"],
  bad_invitation:["PERMISSION_DENIED","never","link"], bad_signature:["PERMISSION_DENIED","later","untrusted"],
  batch_disagreed:["ABORTED","never",null], batch_lost:["FAILED_PRECONDITION","never",null],
  batch_released:["FAILED_PRECONDITION","never",null], block_erased:["FAILED_PRECONDITION","never",null],
  budget_spent:["FAILED_PRECONDITION","never",null], conflicting_submission:["ALREADY_EXISTS","never","unaccepted"],
  content_lost:["FAILED_PRECONDITION","never",null], draining:["UNAVAILABLE","soon","busy"],
  draw_over:["FAILED_PRECONDITION","never",null], expired_key:["FAILED_PRECONDITION","never","retired"],
  implausible_answers:["ABORTED","never",null], incomplete_submission:["FAILED_PRECONDITION","never","unaccepted"],
  internal_error:["INTERNAL","later","busy"], invitation_expired:["PERMISSION_DENIED","never","expired"],
  invitation_used:["ALREADY_EXISTS","never","used"], malformed:["INVALID_ARGUMENT","never","unaccepted"],
  no_budget:["FAILED_PRECONDITION","never",null], no_invitation:["PERMISSION_DENIED","never","uninvited"],
  no_withdrawal_key:["INVALID_ARGUMENT","never","keyless"], not_approved:["PERMISSION_DENIED","later",null],
  not_served:["UNIMPLEMENTED","later","misplaced"], not_your_role:["PERMISSION_DENIED","later","misplaced"],
  out_of_frame:["FAILED_PRECONDITION","never","unaccepted"], out_of_step:["FAILED_PRECONDITION","never",null],
  overloaded:["RESOURCE_EXHAUSTED","soon","busy"], oversized_message:["RESOURCE_EXHAUSTED","never","unaccepted"],
  rate_limited:["RESOURCE_EXHAUSTED","later","busy"], release_failed:["INTERNAL","never",null],
  slow_message:["DEADLINE_EXCEEDED","later","busy"], store_unavailable:["UNAVAILABLE","later","busy"],
  study_closed:["FAILED_PRECONDITION","never","closed"], study_paused:["UNAVAILABLE","later","busy"],
  study_refused:["FAILED_PRECONDITION","later","stopped"], submission_withdrawn:["ALREADY_EXISTS","never","withdrawn"],
  tampered_component:["INVALID_ARGUMENT","never","unaccepted"], too_few_rows:["FAILED_PRECONDITION","never",null],
  too_many_withdrawals:["RESOURCE_EXHAUSTED","later","busy"], unknown_study:["NOT_FOUND","later","unknown_study"],
  unknown_submission:["NOT_FOUND","never","missing"], unreachable:["UNAVAILABLE","soon","busy"],
  wrong_origin:["PERMISSION_DENIED","never",null], wrong_tags:["FAILED_PRECONDITION","never","unaccepted"],
});
/** What a reason that is not listed means, by its status. */
export const STATUSES = /** @type {const} */ ({
  CANCELLED:"later", UNKNOWN:"later", INVALID_ARGUMENT:"never", DEADLINE_EXCEEDED:"later", NOT_FOUND:"later",
  ALREADY_EXISTS:"never", PERMISSION_DENIED:"later", RESOURCE_EXHAUSTED:"later", FAILED_PRECONDITION:"later",
  ABORTED:"later", OUT_OF_RANGE:"never", UNIMPLEMENTED:"later", INTERNAL:"later", UNAVAILABLE:"soon", DATA_LOSS:"later",
  UNAUTHENTICATED:"later",
});
