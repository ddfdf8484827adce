/** What an engine is told to copy itself to. */
export interface BackupOrder {
  path: string;
  /** Whether a file that is there already may be replaced. */
  overwrite: boolean;
  signal: AbortSignal | undefined;
  /** Called after each step. What it throws ends the copying. */
  onCopied: (pages: number, ofPages: number) => void;
}

/** A complete copy under a temporary name beside its destination, where nobody takes it for the backup yet. `S` is what it opens as. */
export interface UnpublishedBackup<S> {
  pages: number;
  /** Opens the copy as what it is a copy of is open, with the same keys; to be closed before {@link publish}. */
  open(): S;
  /**
   * Gives the copy its name, once it is safe on the disk: the destination is there as a whole or not at all.
   *
   * @returns its size in bytes
   * @throws {TurnsError} BACKUP_TARGET_EXISTS, STORE_FAILED
   */
  publish(): Promise<number>;
  /** Removes the copy. Never throws. */
  discard(): void;
}
