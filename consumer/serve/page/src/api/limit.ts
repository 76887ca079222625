/** A signal that aborts with another one, or after some time. */
export class Limit {
  /** Whether the time was over. */
  expired = false;
  private readonly controller = new AbortController();
  private readonly stop = () => this.controller.abort();
  private readonly timer: ReturnType<typeof setTimeout>;

  constructor(
    private readonly outer: AbortSignal,
    milliseconds: number,
  ) {
    if (outer.aborted) this.stop();
    outer.addEventListener("abort", this.stop);
    this.timer = setTimeout(() => {
      this.expired = true;
      this.stop();
    }, milliseconds);
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  /** Wait no longer. */
  end(): void {
    clearTimeout(this.timer);
    this.outer.removeEventListener("abort", this.stop);
  }
}
