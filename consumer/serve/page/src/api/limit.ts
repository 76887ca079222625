/** A signal that aborts with another one, or after some time without a call of `again`. */
export class Limit {
  /** Whether the time was over. */
  expired = false;
  private readonly controller = new AbortController();
  private readonly stop = () => this.controller.abort();
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly outer: AbortSignal,
    private readonly milliseconds: number,
  ) {
    if (outer.aborted) this.stop();
    outer.addEventListener("abort", this.stop);
    this.again();
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  /** Let the time begin anew. */
  again(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.expired = true;
      this.stop();
    }, this.milliseconds);
  }

  /** Wait no longer. */
  end(): void {
    clearTimeout(this.timer);
    this.outer.removeEventListener("abort", this.stop);
  }
}
