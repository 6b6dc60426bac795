import { NotFoundError } from "./errors.js";
import { fromWire, type FileInfo } from "./models.js";
import type { Transport } from "./transport.js";

export interface WriteOptions {
  /** Permission bits; 0o644 if nothing is said. */
  mode?: number;
  owner?: "user" | "root";
  /** Make missing directories above; true if nothing is said. */
  parents?: boolean;
}

const octal = (mode: number | undefined) => (mode === undefined ? undefined : mode.toString(8).padStart(3, "0"));

/**
 * The files of one sandbox; paths are absolute, in the sandbox. Errors:
 * NotFoundError; ConflictError for the wrong kind of thing in the way, or a
 * directory that is not empty; PermissionDenied for a link that somebody else
 * could have put there.
 */
export class Filesystem {
  constructor(private readonly transport: Transport, private readonly base: string) {}

  /** The bytes of a regular file, or length of them from an offset on. */
  read(path: string, o: { offset?: number; length?: number } = {}): Promise<Uint8Array> {
    return this.transport.bytes("GET", `${this.base}/files`, { query: { path, ...o } });
  }

  /** A regular file as text. */
  async readText(path: string): Promise<string> {
    return new TextDecoder().decode(await this.read(path));
  }

  /** A regular file as a stream, for one that does not fit in memory. */
  stream(path: string): Promise<ReadableStream<Uint8Array>> {
    return this.transport.stream("GET", `${this.base}/files`, { query: { path } });
  }

  /** Writes a file in place of what is there; readers see the old content or the new, never a part. */
  async write(path: string, content: string | Uint8Array | ReadableStream<Uint8Array>, o: WriteOptions = {}): Promise<FileInfo> {
    return fromWire(await this.transport.json("PUT", `${this.base}/files`, {
      query: { path, mode: octal(o.mode), owner: o.owner, parents: o.parents ?? true }, body: content as BodyInit,
    }));
  }

  /** The entries of a directory, by name; at most 10,000. */
  async list(path = "/"): Promise<FileInfo[]> {
    return fromWire((await this.transport.json("GET", `${this.base}/files/list`, { query: { path } })).items);
  }

  /** What is at a path; links are not followed. */
  async stat(path: string): Promise<FileInfo> {
    return fromWire(await this.transport.json("GET", `${this.base}/files/stat`, { query: { path } }));
  }

  /** Whether something is at a path. */
  async exists(path: string): Promise<boolean> {
    try {
      await this.stat(path);
      return true;
    } catch (e) {
      if (e instanceof NotFoundError) return false;
      throw e;
    }
  }

  /** Removes a file, a link or an empty directory; recursive: a whole tree. */
  async remove(path: string, o: { recursive?: boolean } = {}): Promise<void> {
    await this.transport.json("DELETE", `${this.base}/files`, { query: { path, recursive: o.recursive ?? false } });
  }

  /** Makes a directory; with parents one that is there already is fine. */
  async mkdir(path: string, o: WriteOptions = {}): Promise<void> {
    await this.transport.json("POST", `${this.base}/files/dir`, { query: { path, mode: octal(o.mode), owner: o.owner, parents: o.parents ?? true } });
  }

  /** Moves a file or directory, in place of a file or empty directory. */
  async rename(path: string, to: string): Promise<void> {
    await this.transport.json("POST", `${this.base}/files/rename`, { query: { path, to } });
  }

  /** Sets the permission bits. */
  async chmod(path: string, mode: number): Promise<void> {
    await this.transport.json("POST", `${this.base}/files/mode`, { query: { path, mode: octal(mode) } });
  }

  /** Unpacks a tar archive into a directory, which is made if need be. */
  async writeTar(path: string, tar: Uint8Array | ReadableStream<Uint8Array>, o: { owner?: "user" | "root" } = {}): Promise<void> {
    await this.transport.json("PUT", `${this.base}/tree`, { query: { path, owner: o.owner }, body: tar as BodyInit, contentType: "application/x-tar" });
  }

  /** A directory as a tar archive: directories, regular files and links. */
  readTar(path: string): Promise<Uint8Array> {
    return this.transport.bytes("GET", `${this.base}/tree`, { query: { path } });
  }
}
