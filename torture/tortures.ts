/** One way to break a promise. `run` prints what it did and found, and returns whether the promise held. */
export interface Torture {
  about: string;
  load: () => Promise<{ run: (options: readonly string[]) => Promise<boolean> }>;
}

export const TORTURES: Record<string, Torture> = {
  crash: { about: "random programs, killed at random points, again and again", load: () => import("./crash") },
  "power-loss": {
    about: "power cuts during real work; every disk image is opened",
    load: () => import("./power-loss"),
  },
  faults: {
    about: "full disks, and system calls that fail one after the other",
    load: () => import("./faults"),
  },
  corruption: {
    about: "flipped bits, torn pages, lost logs, foreign files, and their salvage",
    load: () => import("./corruption"),
  },
  longevity: { about: "100,000 steps in one process, thousands of threads", load: () => import("./longevity") },
  fuzz: { about: "hostile texts, rows, files and Markdown, target by target", load: () => import("./fuzz") },
  concurrency: { about: "dozens of processes and hundreds of threads on one file", load: () => import("./concurrency") },
};
