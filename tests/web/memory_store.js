/** A store in memory, which can be killed before its n-th write. */
export class MemoryStore {
  records = new Map();
  locks = new Map();
  writes = 0;
  killAt = Infinity;
  async get(key) {
    return this.records.get(key);
  }
  async keys(prefix) {
    return [...this.records.keys()].filter((key) => key.startsWith(prefix));
  }
  async write(changes) {
    this.writes += 1;
    if (this.writes >= this.killAt) throw new Error("killed");
    for (const [key, value] of changes) value === null ? this.records.delete(key) : this.records.set(key, value);
  }
  async lock(name, wait, task) {
    if (!wait && this.locks.has(name)) return task(false);
    const before = this.locks.get(name) ?? Promise.resolve();
    const mine = before.then(() => task(true));
    const settled = mine.catch(() => undefined).then(() => this.locks.get(name) === settled && this.locks.delete(name));
    this.locks.set(name, settled);
    return mine;
  }
}
