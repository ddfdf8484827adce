/** One way of breaking a promise. `run` tells whether the promise held, and says on screen what it did and saw. */
export interface Torture {
  about: string;
  load: () => Promise<{ run: (options: readonly string[]) => Promise<boolean> }>;
}

export const TORTURES: Record<string, Torture> = {};
