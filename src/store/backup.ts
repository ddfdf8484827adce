/** Where and how an engine is to copy itself. */
export interface BackupOrder {
  path: string;
  /** Whether an existing file may be replaced. */
  overwrite: boolean;
  signal: AbortSignal | undefined;
  /** Called after each step. An error that it throws stops the copy. */
  onCopied: (pages: number, ofPages: number) => void;
}

/**
 * A complete copy under a temporary name beside its destination, so that nobody takes it for the backup yet. `S` is what it opens
 * as.
 */
export interface UnpublishedBackup<S> {
  pages: number;
  /** Opens the copy with the same keys and settings as its source. Close it before {@link publish}. */
  open(): S;
  /**
   * Gives the copy its name, once it is safe on the disk. The destination is then there as a whole or not at all.
   *
   * @returns its size in bytes
   * @throws {TurnsError} BACKUP_TARGET_EXISTS, STORE_FAILED
   */
  publish(): Promise<number>;
  /** Removes the copy. Never throws. */
  discard(): void;
}
