package android.content;

import android.database.Cursor;
import android.net.Uri;
import java.io.ByteArrayOutputStream;
import java.io.OutputStream;

public class ContentResolver {
    public final ByteArrayOutputStream written = new ByteArrayOutputStream();

    public final OutputStream openOutputStream(Uri uri) {
        return openOutputStream(uri, "w");
    }

    public final OutputStream openOutputStream(Uri uri, String mode) {
        return written;
    }

    public final Cursor query(Uri uri, String[] projection, String selection, String[] args, String sortOrder) {
        return new Cursor();
    }
}
