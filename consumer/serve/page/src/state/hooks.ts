import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Problem } from "../api/client";
import { readRoute, type Route } from "./route";

export interface Resource<T> {
  /** The last answer; `fresh` says whether it is the answer to this question. */
  readonly data: T | undefined;
  readonly error: Problem | undefined;
  readonly fresh: boolean;
  readonly again: () => void;
}

/** Seconds between two requests for the same at least. */
const SHORTEST_WAIT = 2;

interface Held<T> {
  readonly key: string;
  readonly data: T | undefined;
  readonly error: Problem | undefined;
}

/**
 * Load something whenever its key or the version of the data changes, and again where the server asks for patience.
 *
 * @param key what is loaded; null loads nothing.
 * @param version changes when the server has newer data.
 */
export function useResource<T>(
  key: string | null,
  version: unknown,
  load: (signal: AbortSignal) => Promise<T>,
): Resource<T> {
  const [held, setHeld] = useState<Held<T>>({ key: "", data: undefined, error: undefined });
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    if (key === null) return;
    const controller = new AbortController();
    load(controller.signal).then(
      (data) => !controller.signal.aborted && setHeld({ key, data, error: undefined }),
      (error: unknown) => {
        if (!controller.signal.aborted)
          setHeld((old) => ({ key, data: old.key === key ? old.data : undefined, error: asProblem(error) }));
      },
    );
    return () => controller.abort();
  }, [key, version, attempt]);
  const wait = held.key === key ? (held.error?.retryAfter ?? 0) : 0;
  useEffect(() => {
    if (!wait) return;
    const timer = setTimeout(() => setAttempt((n) => n + 1), 1000 * Math.max(wait, SHORTEST_WAIT));
    return () => clearTimeout(timer);
  }, [held]);
  return {
    data: held.data,
    error: held.key === key ? held.error : undefined,
    fresh: held.key === key,
    again: () => setAttempt((n) => n + 1),
  };
}

function asProblem(error: unknown): Problem {
  return error instanceof Problem ? error : new Problem(0, "The page failed", String(error));
}

/** The address within the page. */
export function useRoute(): Route {
  const [route, setRoute] = useState(() => readRoute(location.hash));
  useEffect(() => {
    const change = () => setRoute(readRoute(location.hash));
    addEventListener("hashchange", change);
    return () => removeEventListener("hashchange", change);
  }, []);
  return route;
}

/** Whether an element has been in or near the visible part of the page. */
export function useSeen<E extends Element>(): [RefObject<E | null>, boolean] {
  const ref = useRef<E>(null);
  const [seen, setSeen] = useState(false);
  useEffect(() => {
    if (!ref.current) return;
    const observer = new IntersectionObserver((entries) => entries.some((e) => e.isIntersecting) && setSeen(true), {
      rootMargin: "200px",
    });
    observer.observe(ref.current);
    return () => observer.disconnect();
  }, []);
  return [ref, seen];
}
