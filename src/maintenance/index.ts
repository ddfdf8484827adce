export { rotateKeys, type RotationReport } from "./rotate-keys";
export { type DamagedThread, type LostItem, salvage, type SalvageOptions, type SalvageReport } from "./salvage";
export { vacuum, type VacuumReport } from "./vacuum";
