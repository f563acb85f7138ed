package org.kivy.android;

import org.libsdl.app.SDLActivity;

public class PythonActivity extends SDLActivity {
    public static PythonActivity mActivity = new PythonActivity();
}
