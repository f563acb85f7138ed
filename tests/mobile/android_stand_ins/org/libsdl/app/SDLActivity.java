package org.libsdl.app;

import android.content.ContentResolver;
import android.content.Context;
import android.content.Intent;
import android.view.View;
import android.view.Window;

public class SDLActivity extends Context {
    public static View layout = new View(0, 0, 1080, 2400);
    public final ContentResolver resolver = new ContentResolver();
    public Intent started;
    public int request;

    public static View getContentView() {
        return layout;
    }

    public Window getWindow() {
        return new Window();
    }

    public ContentResolver getContentResolver() {
        return resolver;
    }

    public void startActivity(Intent intent) {
        started = intent;
    }

    public void startActivityForResult(Intent intent, int requestCode) {
        started = intent;
        request = requestCode;
    }
}
