export {
  BODY_NAMES,
  COMMIT_NAMES,
  type Failpoint,
  type FailpointDetails,
  type FailpointHandler,
  setFailpointHandler,
} from "../failpoints";
export { type BoundaryName, type FailpointAction, type FailpointMatch, FAILPOINTS, withFailpoint } from "./failpoint-actions";
export { FakeClock } from "./clocks";
export { Ledger, type LedgerEntry } from "./ledger";
export type { FinalState, GraphModule, GraphWorld, Step } from "./graph-module";
export type { KnownEffect, ReachedPoint, Snapshot, ToldError } from "./child-protocol";
export { type ChildRun, runInProcess, type RunOptions, runUntilKilled } from "./run-until-killed";
export { crashMatrix, type CrashMatrixOptions } from "./crash-matrix";
export { type CrashCase, type Durability, MATRIX_BOUNDARIES } from "./matrix-report";
export { CrashMatrixReport, type CrashRun, type Problem } from "./matrix-report";
export type { Finding, ProblemKind } from "./matrix-verdict";
