export const graphs = 1; export const runRandom = 1;
