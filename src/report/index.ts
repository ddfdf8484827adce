export { CheckpointFile, type CheckpointFileOptions } from "./checkpoint-file";
export type { FollowOptions, ProgressFollower } from "./follow";
export type { FromThreadOptions } from "./from-thread";
export type { PhaseChange } from "./phase-changes";
export type { Phase, PhaseStatus, PhaseTokens, Progress, ResumeInfo, ResumePoint } from "./progress";
