/** One way of breaking a promise. `run` tells whether the promise held, and says on screen what it did and saw. */
export interface Torture {
  about: string;
  load: () => Promise<{ run: (options: readonly string[]) => Promise<boolean> }>;
}

export const TORTURES: Record<string, Torture> = {
  "power-loss": {
    about: "power cuts in the midst of real work, of which every disk image is opened",
    load: () => import("./power-loss"),
  },
  longevity: { about: "100,000 steps in one process, thousands of threads", load: () => import("./longevity") },
  fuzz: { about: "hostile texts, rows, files and Markdown, target by target", load: () => import("./fuzz") },
};
