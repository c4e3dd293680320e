// Nothing of its own: it gives the precompiled header of asio_pch.h a source that uses it.
