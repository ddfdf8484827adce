export { type DamagedThread, type LostItem, salvage, type SalvageOptions, type SalvageReport } from "./salvage";
