/** One way of breaking a promise. `run` tells whether the promise held, and says on screen what it did and saw. */
export interface Torture {
  about: string;
  load: () => Promise<{ run: (options: readonly string[]) => Promise<boolean> }>;
}

export const TORTURES: Record<string, Torture> = {
  crash: { about: "random programs, killed at random points, again and again", load: () => import("./crash") },
  "power-loss": {
    about: "power cuts in the midst of real work, of which every disk image is opened",
    load: () => import("./power-loss"),
  },
  faults: {
    about: "disks that are full, and calls of the system that fail one after the other",
    load: () => import("./faults"),
  },
  corruption: {
    about: "flipped bits, torn pages, lost logs, foreign files, and what is salvaged",
    load: () => import("./corruption"),
  },
  longevity: { about: "100,000 steps in one process, thousands of threads", load: () => import("./longevity") },
  fuzz: { about: "hostile texts, rows, files and Markdown, target by target", load: () => import("./fuzz") },
  concurrency: { about: "processes by the dozen, threads by the hundred, on one file", load: () => import("./concurrency") },
};
