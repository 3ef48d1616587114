"""What connections carry: frames of bytes, cut out of a stream without copying more than is needed."""

from ottla.net.framing import BadFrame, FrameReader, ReceiveBuffer

__all__ = ["BadFrame", "FrameReader", "ReceiveBuffer"]
